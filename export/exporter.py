"""Turns a GGUF file into a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgedec.bundle.manifest import PART_HASH, Manifest, Scalar
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.progress import Progress, counted, silent
from edgedec.disk.files import sha256_of
from edgedec.export.architectures import ARCHITECTURES, NO_OPS, Architecture
from edgedec.export.bundle import About, Contents, printable_name, write_bundle
from edgedec.export.drafters.kinds import refuse_drafter
from edgedec.export.encoders.gguf import encodes_gguf, export_gguf_encoder
from edgedec.export.gguf_parts import model_stem
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.interrupt import terminations_raise
from edgedec.export.llama_cpp import bundle_for_llama_cpp, instead
from edgedec.export.model_card import ModelCard, gguf_preset
from edgedec.export.no_model import refuse_no_model
from edgedec.export.texts import TextFiles
from edgedec.export.tokenizer import build_tokenizer, template_of
from edgedec.export.writer import check_target

LLAMA_CPP = "llama.cpp"


def export_gguf(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    card: ModelCard | None = None,
    progress: Progress | None = None,
    backend: str | None = None,
) -> Manifest:
    """Turn the GGUF file ``source`` into the bundle directory ``out`` and return its manifest.

    Weights keep their exact values. ``out`` must be new, empty or a bundle. It is replaced in one step, when
    everything is written: an error, Ctrl-C or SIGTERM leaves it as it was.

    - ``name`` defaults to the name in the file.
    - ``card`` has facts for the manifest. Without a preset there it is that of the file, if it has one.
    - ``progress(stage, done_bytes, total_bytes)`` is called for the stages "source" (hashing) and "weights".
    - ``backend`` is one of BACKENDS. None: EdgeDec's kernels if they support the architecture, else
      llama.cpp if llama-cpp-python is installed and runs the file. A bundle for llama.cpp holds the GGUF
      file itself.

    Raises NotFoundError, BadFileError, UnsupportedError, UsageError or StorageError.
    """
    source, out = Path(source), Path(out)
    report, card = progress or silent, card or ModelCard()
    check_target(out)
    with open_gguf(source) as gguf, terminations_raise():
        refuse_drafter(gguf)
        refuse_no_model(gguf.metadata, gguf.path.name)
        about = gguf_about(gguf, name, card, report)
        if backend == LLAMA_CPP:
            return bundle_for_llama_cpp(gguf, out, about)
        try:
            return _build(gguf, out, about, report)
        except UnsupportedError as error:
            if backend is not None:
                raise
            return instead(error, gguf, out, about)


def gguf_about(gguf: GgufSource, name: str | None, card: ModelCard, report: Progress) -> About:
    """Return the manifest's facts about a GGUF file; ``name``: None for the one in the file."""

    def origin() -> dict[str, Scalar]:
        return _origin(gguf, card.provenance, report)

    preset = gguf_preset(gguf.metadata) if card.preset is None else card.preset
    return About(name or _name(gguf), preset, origin)


def _build(gguf: GgufSource, out: Path, about: About, report: Progress) -> Manifest:
    """Write a bundle for EdgeDec's own kernels.

    Raises UnsupportedError for a model that they cannot compute.
    """
    if encodes_gguf(gguf.metadata):
        return export_gguf_encoder(gguf, out, about, report)
    return write_bundle(gguf, gguf_contents(gguf, about), out, report)


def gguf_contents(gguf: GgufSource, about: About) -> Contents:
    """Return the contents of a bundle of a GGUF file. Raises BadFileError or UnsupportedError."""
    hyper = read_hyperparameters(_architecture(gguf), gguf.metadata)
    tokenizer_json, info = build_tokenizer(gguf.metadata)
    vocab = _vocabulary(gguf)
    texts = TextFiles(tokenizer_json, info, template_of(gguf.metadata), about.preset)
    return Contents(about, hyper, vocab, texts)


def _architecture(gguf: GgufSource) -> Architecture:
    name = gguf.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise BadFileError("the GGUF metadata lacks general.architecture")
    if name not in ARCHITECTURES:
        hint = NO_OPS.get(name, f"supported are {', '.join(ARCHITECTURES)}")
        raise UnsupportedError(f"architecture {name[:40]!r} is not supported", hint=hint)
    return ARCHITECTURES[name]


def _name(gguf: GgufSource) -> str:
    """Return the name in the metadata, else the file's name, as one printable line."""
    name = gguf.metadata.get("general.name")
    return printable_name(name if isinstance(name, str) and name.strip() else model_stem(gguf.path))


def _vocabulary(gguf: GgufSource) -> int:
    table = gguf.tensors.get("token_embd.weight")
    if table is None:
        raise BadFileError("the GGUF file lacks tensor token_embd.weight")
    rows = table.shape[0]
    tokens = gguf.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or len(tokens) != rows:
        count = len(tokens) if isinstance(tokens, list) else 0
        raise BadFileError(f"the tokenizer has {count} tokens, the embedding {rows} rows")
    return rows


def _origin(gguf: GgufSource, provenance: Mapping[str, str], report: Progress) -> dict[str, Scalar]:
    count = counted(report, "source", gguf.nbytes)
    origin: dict[str, Scalar] = {
        "kind": "gguf",
        "file": printable_name(gguf.path.name),
        "bytes": gguf.nbytes,
    }
    for number, path in enumerate(gguf.paths, 1):
        key = "sha256" if len(gguf.paths) == 1 else f"{PART_HASH}{number}"
        origin[key] = sha256_of(path, count)
    for key, field in (("licence", "general.license"), ("url", "general.source.url")):
        value: Any = gguf.metadata.get(field)
        if isinstance(value, str):
            origin[key] = value[:200]
    return {**origin, **provenance}
