"""``manifest.json``: the model of a bundle, its source, and the size and hash of each of its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgedec.bundle.preset import OFF, Preset
from edgedec.core.cache_kinds import kinds_from_json
from edgedec.core.errors import EdgeDecError, Remedy, UnsupportedError, UsageError
from edgedec.core.experts import experts_from_json
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk import listed_files as listed
from edgedec.disk.listed_files import FileEntry, FolderKind, ListedFolder, ManifestFields, Scalar

if TYPE_CHECKING:
    from edgedec.bundle.embedding_facts import EmbeddingFacts

__all__ = ["FileEntry", "Manifest", "Scalar", "TokenizerInfo", "is_outdated"]

MANIFEST = "manifest.json"
ENCODER = "encoder"
"""Kind of a bundle whose model makes vectors or scores of texts, and no replies."""
MODEL = "model.onnx"
DRAFTING = "drafting.onnx"
"""The graph of ``MODEL`` with exits and hidden states, over the same weights; a bundle may lack it."""
WEIGHTS = "weights.bin"
GGUF = "model.gguf"
NPU_FACTS = "npu.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_TABLE = "tokenizer.table"
"""The form of ``TOKENIZER`` that is mapped; it takes its place in a bundle for devices."""
CHAT_TEMPLATE = "chat_template.jinja"

PART_HASH = "sha256 of part "
"""Begin of keys of ``source`` for a file in parts; their numbers stand behind it."""
_BY_NAME = "package index"
"""``source["kind"]`` of models that are pulled by the name of a recipe."""
_AGAIN = "pull or export the model again"
_BUNDLE = FolderKind(MANIFEST, "bundle", _AGAIN, "edgedec-bundle", version=2)
_FIELDS = (
    "format", "version", "kind", "name", "architecture", "spec", "tokenizer", "preset", "files", "source",
    "versions",
)  # fmt: skip
_WEIGHT_FILES = {
    "edgedec": {MODEL, WEIGHTS}, "optimum": {MODEL, WEIGHTS}, "gguf": {GGUF}, "npu": {NPU_FACTS, WEIGHTS},
    ENCODER: {MODEL, WEIGHTS},
}  # fmt: skip
"""Kind of bundle -> files of its model: a graph of EdgeDec's own ops, one in standard ops (optimum), a
GGUF file for llama.cpp, graphs for an NPU, or a graph that makes vectors of texts. ``backends.open`` has the
backend of each kind but the last, which ``edgedec.embed`` opens.
"""


@dataclass(frozen=True, slots=True)
class TokenizerInfo:
    """Facts of the tokenizer beside ``tokenizer.json``. Ids are token ids."""

    add_bos: bool
    bos_id: int | None
    eos_ids: tuple[int, ...]
    kind: Literal["bpe", "spm", "other"]
    """How tokens spell bytes; "other": as only encoders know, which never decode."""
    chat_template: bool
    """Whether the bundle has a chat template; a base model has none."""
    infill: tuple[int, ...] = ()
    """Tokens that a GGUF file names for a gap between two texts: of the first, the second, the gap."""


@dataclass(frozen=True, slots=True)
class Manifest(ListedFolder):
    """A bundle's table of contents. ``files`` lists every file but the manifest itself."""

    name: str
    spec: ModelSpec
    tokenizer: TokenizerInfo
    files: Mapping[str, FileEntry]
    source: Mapping[str, Scalar] = field(default_factory=dict)
    versions: Mapping[str, Scalar] = field(default_factory=dict)
    kind: str = "edgedec"
    """The key of ``backends.open.BACKENDS``."""
    preset: Preset = OFF
    """How replies are drawn unless the user says otherwise; all off where the file has none."""
    embedding: EmbeddingFacts | None = None
    """Facts of a model that makes vectors or scores of texts; None for one that replies."""

    @property
    def source_hashes(self) -> tuple[str, ...]:
        """The hashes of the GGUF file that the bundle was made of, or of its parts; () for a directory."""
        keys = [key for key in self.source if key.startswith(PART_HASH)]
        by_number = sorted(keys, key=lambda key: (len(key), key))
        found = [self.source.get(key) for key in ("sha256", *by_number)]
        return tuple(value for value in found if isinstance(value, str))

    @property
    def tokenizer_sha256(self) -> str | None:
        """The hash of ``tokenizer.json``; None in a bundle that has only its table."""
        entry = self.files.get(TOKENIZER)
        return entry.sha256 if entry else None

    @classmethod
    def load(cls, directory: Path, *, verify: bool = False) -> Manifest:
        """Read and check the manifest of the bundle at ``directory``.

        File sizes are always compared (cheap); hashes only with ``verify``. Raises NotFoundError when
        there is no bundle, BadFileError when it is broken, UnsupportedError when it has another version.
        """
        manifest = cls.from_json(_BUNDLE.read(directory))
        _BUNDLE.check_all(directory, manifest.files, verify=verify)
        return manifest

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Decode the text of a manifest. Raises BadFileError or UnsupportedError."""
        top = _BUNDLE.decoded(text, _other_version)
        top.check_seal(_FIELDS)
        tokenizer = _tokenizer(top.below("tokenizer"))
        kind = top.get("kind", listed.text)
        files = _files(top.get("files", listed.mapping), tokenizer.chat_template, kind)
        spec = _spec(top.below("spec"))
        source, versions = top.get("source", listed.scalars), top.get("versions", listed.scalars)
        preset = top.get("preset", _preset) if "preset" in top else OFF
        embedding = _embedding(top) if kind == ENCODER else None
        name = top.get("name", listed.text)
        return cls(name, spec, tokenizer, files, source, versions, kind, preset, embedding)

    def to_json(self) -> str:
        """The text of ``manifest.json``."""
        data = {
            "kind": self.kind,
            "name": self.name,
            "architecture": self.spec.architecture,
            "spec": self.spec.as_json(),
            "tokenizer": _tokenizer_json(self.tokenizer),
            "preset": self.preset.as_json(),
            "files": self.listed(),
            "source": dict(self.source),
            "versions": dict(self.versions),
        }
        if self.embedding:
            data["embedding"] = self.embedding.as_json()
        return _BUNDLE.text_of(data)

    def save(self, directory: Path) -> None:
        """Write ``manifest.json`` into ``directory``. Raises StorageError."""
        _BUNDLE.save(directory, self.to_json())


def _other_version(version: int, top: ManifestFields) -> UnsupportedError:
    name = top.get("name", listed.text)
    message = f"bundle {name} has version {version}, and this EdgeDec reads version {_BUNDLE.version}"
    if version > _BUNDLE.version:
        return UnsupportedError(message, hint="update EdgeDec")
    if top.get("source", listed.scalars).get("kind") == _BY_NAME:
        return UnsupportedError(message, hint="pull the model again", remedy=Remedy("pull", name))
    return UnsupportedError(message, hint=_AGAIN)


def is_outdated(directory: Path) -> bool:
    """Whether the bundle at ``directory`` states an older version than this EdgeDec reads."""
    try:
        data = json.loads(_BUNDLE.read(directory))
    except (EdgeDecError, ValueError, RecursionError):
        return False
    version = data.get("version") if isinstance(data, dict) else None
    return isinstance(version, int) and version < _BUNDLE.version


def _kind(value: Any) -> Literal["bpe", "spm", "other"]:
    if value == "bpe":
        return "bpe"
    if value == "spm":
        return "spm"
    if value == "other":
        return "other"
    raise TypeError("is none of 'bpe', 'spm' and 'other'")


def _embedding(top: ManifestFields) -> EmbeddingFacts:
    from edgedec.bundle.embedding_facts import facts_from_json  # which models that reply do not need

    return top.get("embedding", facts_from_json)


def _preset(value: Any) -> Preset:
    try:
        return Preset.from_json(listed.mapping(value))
    except UsageError as error:
        raise TypeError(f"is wrong: {error}") from error


def _spec(reader: ManifestFields) -> ModelSpec:
    sizes = ("vocab_size", "n_layers", "n_heads", "n_kv_heads", "head_dim", "hidden_size", "context_length")
    spec = ModelSpec(
        name=reader.get("name", listed.text),
        architecture=reader.get("architecture", listed.text),
        bos_id=reader.get("bos_id", listed.maybe_id),
        eos_ids=reader.get("eos_ids", listed.token_ids),
        head_k=reader.get("head_k", listed.count),
        ffn_size=reader.get("ffn_size", listed.token_id),
        n_window_layers=reader.get("n_window_layers", listed.token_id),
        window=reader.get("window", listed.token_id),
        table_bytes=reader.get("table_bytes", listed.byte_count),
        caches=reader.get("caches", kinds_from_json) if "caches" in reader else (),
        experts=reader.get("experts", experts_from_json) if "experts" in reader else None,
        **{size: reader.get(size, listed.count) for size in sizes},
    )
    windows = spec.n_window_layers <= spec.n_layers and bool(spec.n_window_layers) == bool(spec.window)
    tails = {kind.tail for kind in spec.states}  # one number says how many tokens states cover
    heads = spec.n_heads % spec.n_kv_heads == 0
    if not (heads and windows and len(tails) <= 1 and spec.head_k <= spec.vocab_size):
        raise _BUNDLE.broken("the sizes of spec do not fit each other")
    if any(id >= spec.vocab_size for id in (*spec.eos_ids, spec.bos_id or 0)):
        raise _BUNDLE.broken("a token id of spec lies outside the vocabulary")
    return spec


def _tokenizer(reader: ManifestFields) -> TokenizerInfo:
    return TokenizerInfo(
        add_bos=reader.get("add_bos", listed.flag),
        bos_id=reader.get("bos_id", listed.maybe_id),
        eos_ids=reader.get("eos_ids", listed.token_ids),
        kind=reader.get("kind", _kind),
        chat_template=reader.get("chat_template", listed.flag),
        infill=reader.get("infill", listed.token_ids) if "infill" in reader else (),
    )


def _tokenizer_json(info: TokenizerInfo) -> dict[str, Any]:
    facts = asdict(info)
    return facts if info.infill else {name: value for name, value in facts.items() if name != "infill"}


def _files(table: dict[str, Any], chat_template: bool, kind: str) -> dict[str, FileEntry]:
    files = _BUNDLE.files(table)
    tokenizer = TOKENIZER_TABLE if TOKENIZER_TABLE in files else TOKENIZER
    needed = {*_WEIGHT_FILES.get(kind, ()), tokenizer} | ({CHAT_TEMPLATE} if chat_template else set())
    if missing := sorted(needed - files.keys()):
        raise _BUNDLE.broken(f"it does not list {missing[0]}")
    return files
