"""The texts of a bundle, and its last step: tokenizer and chat template are written, then the manifest."""

from __future__ import annotations

from collections.abc import Mapping

from edgedec.bundle.embedding_facts import EmbeddingFacts
from edgedec.bundle.manifest import CHAT_TEMPLATE, TOKENIZER, Manifest, Scalar, TokenizerInfo
from edgedec.bundle.preset import Preset
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.writer import BundleWriter
from edgedec.text.table_encoder import write_table


@dataclass(frozen=True, slots=True)
class TextFiles:
    """The text of tokenizer.json and the facts about it; chat template (None for a base model) and preset.

    ``embedding``: the facts of a model that makes vectors of texts.
    """

    json: str
    info: TokenizerInfo
    template: str | None
    preset: Preset
    embedding: EmbeddingFacts | None = None


def finish_bundle(
    writer: BundleWriter,
    texts: TextFiles,
    spec: ModelSpec,
    origin: Mapping[str, Scalar],
    made_by: Mapping[str, Scalar],
    kind: str = "edgedec",
) -> Manifest:
    """Write the texts and the manifest of a bundle whose other files are there. Raises StorageError."""
    writer.bytes(TOKENIZER, texts.json.encode())
    if texts.template is not None:
        writer.bytes(CHAT_TEMPLATE, texts.template.encode())
    manifest = Manifest(
        spec.name, spec, texts.info, writer.files, origin, made_by, kind, texts.preset, texts.embedding
    )
    Manifest.from_json(manifest.to_json())  # a manifest that cannot be loaded must not be written
    manifest.save(writer.directory)
    write_table(writer.directory)
    return manifest
