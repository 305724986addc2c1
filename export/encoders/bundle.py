"""Writes the bundle of an encoder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgedec.bundle.embedding_facts import EmbeddingFacts
from edgedec.bundle.manifest import ENCODER, TOKENIZER, Manifest, Scalar, TokenizerInfo
from edgedec.bundle.preset import OFF
from edgedec.core.errors import BadFileError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path
from edgedec.export.bundle import versions
from edgedec.export.model import ExportModel
from edgedec.export.passes.attach_bodies import AttachBodies
from edgedec.export.passes.externalise_weights import ExternaliseWeights
from edgedec.export.passes.infra import run_passes
from edgedec.export.source import WeightSource
from edgedec.export.texts import TextFiles, finish_bundle
from edgedec.export.writer import BundleWriter, check_space, weights_bytes


@dataclass(frozen=True, slots=True)
class EncoderContents:
    """Contents of an encoder's bundle. ``origin`` is called last, because it hashes the source."""

    model: ExportModel
    spec: ModelSpec
    facts: EmbeddingFacts
    tokenizer: str
    origin: Callable[[], Mapping[str, Scalar]]


def write_encoder(contents: EncoderContents, source: WeightSource, out: Path, report: Progress) -> Manifest:
    """Write the whole bundle or nothing. Raises BadFileError, UnsupportedError or StorageError."""
    model, spec = contents.model, contents.spec
    run_passes(model, [AttachBodies(), ExternaliseWeights()])
    text = checked_tokenizer(contents.tokenizer, spec.vocab_size)
    check_space(out, weights_bytes(model) + len(text))
    info = TokenizerInfo(False, None, (), "other", chat_template=False)
    origin = contents.origin()
    with atomic_path(out, directory=True) as directory:
        writer = BundleWriter(directory, {})
        writer.weights(model, source, report)
        writer.model(model, spec.name, {"architecture": spec.architecture, "format": "edgedec-bundle"})
        texts = TextFiles(text, info, None, OFF, contents.facts)
        made_by = versions("onnx", "gguf", "numpy")
        return finish_bundle(writer, texts, spec, origin, made_by, ENCODER)


def checked_tokenizer(text: str, vocab: int) -> str:
    """Return tokenizer.json without the settings of a training run. Raises BadFileError, UnsupportedError."""
    from tokenizers import Tokenizer

    from edgedec.text.encoder import LibraryEncoder
    from edgedec.text.tokenizer_guard import check_steps

    try:
        library = Tokenizer.from_str(text)
        most = max(library.get_vocab(with_added_tokens=True).values(), default=0)
        library.encode("a b", "c")
    except Exception as error:  # the library raises bare Exception
        raise BadFileError(f"{TOKENIZER} is not a valid tokenizer: {str(error)[:100]}") from error
    check_steps(LibraryEncoder(library).facts)
    if most >= vocab:
        raise BadFileError(f"{TOKENIZER} has a token with id {most}, the model {vocab} tokens")
    document: dict[str, Any] = json.loads(text)
    document |= {"padding": None, "truncation": None}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
