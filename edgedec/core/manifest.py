"""``manifest.json``: the model of a bundle, its source, and the size and hash of each of its files.

Loading trusts nothing: the file may have been edited, truncated or written by an enemy. Every field is
checked for type and range before it is used, and a file name cannot leave the bundle.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from edgedec.core.errors import (
    BadFileError,
    EdgeDecError,
    NotFoundError,
    Remedy,
    UnsupportedError,
    UsageError,
)
from edgedec.core.files import atomic_path, sha256_of
from edgedec.core.model_spec import ModelSpec
from edgedec.core.preset import OFF, Preset

MANIFEST = "manifest.json"
MODEL = "model.onnx"
WEIGHTS = "weights.bin"
GGUF = "model.gguf"
TOKENIZER = "tokenizer.json"
CHAT_TEMPLATE = "chat_template.jinja"

_FORMAT = "edgedec-bundle"
_VERSION = 2
_BY_NAME = "package index"
"""``source["kind"]`` of models that are pulled by the name of a recipe."""
_AGAIN = "pull or export the model again"
_MOST_BYTES = 1 << 20
_MOST = 2**31 - 1
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

T = TypeVar("T")
_WEIGHT_FILES = {"edgedec": {MODEL, WEIGHTS}, "optimum": {MODEL, WEIGHTS}, "gguf": {GGUF}}
"""Kind of bundle -> files of its model: a graph of EdgeDec's own ops, one in standard ops (optimum), or a
GGUF file for llama.cpp. ``backends.open`` has the backend of each kind.
"""
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TokenizerInfo:
    """Facts of the tokenizer beside ``tokenizer.json``. Ids are token ids."""

    add_bos: bool
    bos_id: int | None
    eos_ids: tuple[int, ...]
    kind: Literal["bpe", "spm"]
    chat_template: bool
    """Whether the bundle has a chat template; a base model has none."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """Size and SHA-256 (hex) of a file of the bundle."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
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

    @property
    def total_bytes(self) -> int:
        """Bytes of all files listed."""
        return sum(entry.bytes for entry in self.files.values())

    @classmethod
    def load(cls, directory: Path, *, verify: bool = False) -> Manifest:
        """Read and check the manifest of the bundle at ``directory``.

        File sizes are always compared (cheap); hashes only with ``verify``. Raises NotFoundError when
        there is no bundle, BadFileError when it is broken, UnsupportedError when it has another version.
        """
        _check_inside(directory, MANIFEST)
        manifest = cls.from_json(_read(directory))
        for name, entry in manifest.files.items():
            _check_inside(directory, name)
            _check_file(directory / name, entry, verify)
        return manifest

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Decode the text of a manifest. Raises BadFileError or UnsupportedError."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _broken("it is not JSON") from error
        top = _Reader("the manifest", data)
        if top.get("format", _text) != _FORMAT:
            raise _broken(f"its format is not {_FORMAT!r}")
        if (version := top.get("version", _count)) != _VERSION:
            raise _other_version(version, top)
        tokenizer = _tokenizer(_Reader("tokenizer", top.get("tokenizer", _mapping)))
        kind = top.get("kind", _text)
        files = _files(top.get("files", _mapping), tokenizer.chat_template, kind)
        spec = _spec(_Reader("spec", top.get("spec", _mapping)))
        source, versions = top.get("source", _scalars), top.get("versions", _scalars)
        preset = top.get("preset", _preset) if "preset" in data else OFF
        return cls(top.get("name", _text), spec, tokenizer, files, source, versions, kind, preset)

    def to_json(self) -> str:
        """The text of ``manifest.json``."""
        data = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": self.kind,
            "name": self.name,
            "architecture": self.spec.architecture,
            "spec": asdict(self.spec),
            "tokenizer": asdict(self.tokenizer),
            "preset": self.preset.as_json(),
            "files": {name: asdict(entry) for name, entry in self.files.items()},
            "source": dict(self.source),
            "versions": dict(self.versions),
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    def save(self, directory: Path) -> None:
        """Write ``manifest.json`` into ``directory``. Raises StorageError."""
        with atomic_path(directory / MANIFEST) as temporary:
            temporary.write_text(self.to_json(), encoding="utf-8")


def _broken(why: str) -> BadFileError:
    return BadFileError(f"{MANIFEST} of the bundle is broken: {why}", hint=_AGAIN)


def _other_version(version: int, top: _Reader) -> UnsupportedError:
    name = top.get("name", _text)
    message = f"bundle {name} has version {version}, and this EdgeDec reads version {_VERSION}"
    if version > _VERSION:
        return UnsupportedError(message, hint="update EdgeDec")
    if top.get("source", _scalars).get("kind") == _BY_NAME:
        return UnsupportedError(message, hint="pull the model again", remedy=Remedy("pull", name))
    return UnsupportedError(message, hint=_AGAIN)


def is_outdated(directory: Path) -> bool:
    """Whether the bundle at ``directory`` states an older version than this EdgeDec reads."""
    try:
        data = json.loads(_read(directory))
    except (EdgeDecError, ValueError, RecursionError):
        return False
    version = data.get("version") if isinstance(data, dict) else None
    return isinstance(version, int) and version < _VERSION


def _read(directory: Path) -> str:
    path = directory / MANIFEST
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"no EdgeDec bundle at {directory}", hint=f"it has no {MANIFEST}") from error
    except OSError as error:
        raise BadFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise _broken(f"it is larger than {_MOST_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _broken("it is not UTF-8") from error


def _check_inside(directory: Path, name: str) -> None:
    """A link may lead to another file of the bundle, not to one of the user's elsewhere."""
    path = directory / name
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory)):
        raise BadFileError(f"{name} of the bundle leads out of it", hint="put the file itself there")


def _check_file(path: Path, entry: FileEntry, verify: bool) -> None:
    try:
        size = path.stat().st_size if path.is_file() else -1
    except OSError:
        size = -1
    if size < 0:
        raise BadFileError(f"the bundle lacks {path.name}", hint=_AGAIN)
    if not os.access(path, os.R_OK):
        raise BadFileError(f"{path} cannot be read: no permission")
    if size != entry.bytes:
        raise BadFileError(
            f"{path.name} of the bundle has {size} bytes, not {entry.bytes}",
            hint=_AGAIN,
        )
    if verify and sha256_of(path) != entry.sha256:
        raise BadFileError(f"{path.name} of the bundle fails its SHA-256", hint=_AGAIN)


class _Reader:
    """Typed access to one JSON object; every failure names the field."""

    def __init__(self, where: str, data: Any) -> None:
        if not isinstance(data, dict):
            raise _broken(f"{where} is not an object")
        self._where, self._data = where, data

    def get(self, key: str, decode: Callable[[Any], T]) -> T:
        if key not in self._data:
            raise _broken(f"{self._where} lacks {key!r}")
        try:
            return decode(self._data[key])
        except TypeError as error:
            raise _broken(f"{key!r} of {self._where} {error}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1000 or not value.isprintable():
        raise TypeError("is not a short printable text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("is not true or false")
    return value


def _id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise TypeError("is not a whole number from 0 on")
    return value


def _count(value: Any) -> int:
    if _id(value) == 0:
        raise TypeError("is zero")
    return int(value)


def _bytes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise TypeError("is not a number of bytes")
    return value


def _hash(value: Any) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise TypeError("is not a SHA-256 in lower-case hexadecimal digits")
    return value


def _maybe_id(value: Any) -> int | None:
    return None if value is None else _id(value)


def _ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > 1000:
        raise TypeError("is not a short list")
    return tuple(_id(item) for item in value)


def _kind(value: Any) -> Literal["bpe", "spm"]:
    if value == "bpe":
        return "bpe"
    if value == "spm":
        return "spm"
    raise TypeError("is neither 'bpe' nor 'spm'")


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("is not an object")
    return value


def _scalars(value: Any) -> dict[str, Scalar]:
    for item in _mapping(value).values():
        if not isinstance(item, str | int | float | None):
            raise TypeError("holds more than texts and numbers")
    return dict(value)


def _preset(value: Any) -> Preset:
    try:
        return Preset.from_json(_mapping(value))
    except UsageError as error:
        raise TypeError(f"is wrong: {error}") from error


def _spec(reader: _Reader) -> ModelSpec:
    sizes = ("vocab_size", "n_layers", "n_heads", "n_kv_heads", "head_dim", "hidden_size", "context_length")
    spec = ModelSpec(
        name=reader.get("name", _text),
        architecture=reader.get("architecture", _text),
        bos_id=reader.get("bos_id", _maybe_id),
        eos_ids=reader.get("eos_ids", _ids),
        head_k=reader.get("head_k", _count),
        ffn_size=reader.get("ffn_size", _id),
        n_window_layers=reader.get("n_window_layers", _id),
        window=reader.get("window", _id),
        table_bytes=reader.get("table_bytes", _bytes),
        **{size: reader.get(size, _count) for size in sizes},
    )
    windows = spec.n_window_layers <= spec.n_layers and bool(spec.n_window_layers) == bool(spec.window)
    if spec.n_heads % spec.n_kv_heads or spec.head_k > spec.vocab_size or not windows:
        raise _broken("the sizes of spec do not fit each other")
    if any(id >= spec.vocab_size for id in (*spec.eos_ids, spec.bos_id or 0)):
        raise _broken("a token id of spec lies outside the vocabulary")
    return spec


def _tokenizer(reader: _Reader) -> TokenizerInfo:
    return TokenizerInfo(
        add_bos=reader.get("add_bos", _flag),
        bos_id=reader.get("bos_id", _maybe_id),
        eos_ids=reader.get("eos_ids", _ids),
        kind=reader.get("kind", _kind),
        chat_template=reader.get("chat_template", _flag),
    )


def _files(table: dict[str, Any], chat_template: bool, kind: str) -> dict[str, FileEntry]:
    files = {}
    for name, value in table.items():
        if not _FILE_NAME.fullmatch(name) or name == MANIFEST:
            raise _broken(f"{name[:40]!r} is not the name of a file of a bundle")
        entry = _Reader(f"file {name!r}", value)
        files[name] = FileEntry(entry.get("bytes", _bytes), entry.get("sha256", _hash))
    needed = {*_WEIGHT_FILES.get(kind, ()), TOKENIZER} | ({CHAT_TEMPLATE} if chat_template else set())
    if missing := sorted(needed - files.keys()):
        raise _broken(f"it does not list {missing[0]}")
    return files
