"""Folders with a manifest in JSON that lists their files: read and checked, trusting nothing.

The manifest may have been edited, truncated or written by an enemy. Every field is checked for type and range
before it is used, and a file name cannot leave the folder. The hash of its own facts shows damage.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.digest import sha256_hex
from edgedec.disk.files import atomic_path, sha256_of

Scalar = str | int | float | bool | None
T = TypeVar("T")

SEAL = "sha256"
"""The field with the hash of all other facts of a manifest."""
_MOST_BYTES = 1 << 20
_MOST = 2**31 - 1
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """Size and SHA-256 (hex) of a file that a manifest lists."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """Measure and hash a file."""
        return cls(path.stat().st_size, sha256_of(path))


@dataclass(frozen=True, slots=True)
class FolderKind:
    """A kind of folder with a manifest: the manifest's file name, its format, and words for messages.

    ``noun`` is the folder in a message. ``mend`` is the hint for one that is broken, ``renew`` for one of
    another version. ``depth``: most parts of a file's name; with more than one it may list files of folders
    in it.
    """

    manifest: str
    noun: str
    mend: str
    format: str
    version: int = 1
    renew: str = "export it again"
    depth: int = 1

    def broken(self, why: str) -> BadFileError:
        """Return the error for a manifest that cannot be used."""
        return BadFileError(f"{self.manifest} of the {self.noun} is broken: {why}", hint=self.mend)

    def read(self, directory: Path) -> str:
        """Return the text of the manifest. Raises NotFoundError without one, BadFileError."""
        self._check_inside(directory, self.manifest)
        path = directory / self.manifest
        try:
            with path.open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError) as error:
            message = f"no EdgeDec {self.noun} at {directory}"
            raise NotFoundError(message, hint=f"it has no {self.manifest}") from error
        except OSError as error:
            raise BadFileError(f"{path} cannot be read: {error.strerror}") from error
        if len(data) > _MOST_BYTES:
            raise self.broken(f"it is larger than {_MOST_BYTES} bytes")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.broken("it is not UTF-8") from error

    def fields(self, text: str) -> ManifestFields:
        """Decode the text of a manifest. Raises BadFileError unless it is a JSON object."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.broken("it is not JSON") from error
        return ManifestFields(self, "the manifest", data)

    def decoded(
        self, stated: str, other: Callable[[int, ManifestFields], UnsupportedError] | None = None
    ) -> ManifestFields:
        """Decode the text of a manifest of this format and version. Raises BadFileError, UnsupportedError.

        ``other`` returns the error for another version; by default it names both.
        """
        top = self.fields(stated)
        if top.get("format", text) != self.format:
            raise self.broken(f"its format is not {self.format!r}")
        if (version := top.get("version", count)) == self.version:
            return top
        if other is not None:
            raise other(version, top)
        message = f"the {self.noun} has version {version}, and this EdgeDec reads version {self.version}"
        raise UnsupportedError(message, hint=self.renew)

    def text_of(self, facts: Mapping[str, Any]) -> str:
        """Return the text of a manifest that states ``facts`` and their hash."""
        return sealed({"format": self.format, "version": self.version, **facts})

    def save(self, directory: Path, text: str) -> None:
        """Write the manifest into ``directory``. Raises StorageError."""
        with atomic_path(directory / self.manifest) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")

    def files(self, table: dict[str, Any]) -> dict[str, FileEntry]:
        """Decode the entries of files by name. Raises BadFileError for a name that is no plain file name."""
        files = {}
        for name, value in table.items():
            if not self.may_list(name):
                raise self.broken(f"{name[:40]!r} is not the name of a file of a {self.noun}")
            entry = ManifestFields(self, f"file {name!r}", value)
            files[name] = FileEntry(entry.get("bytes", byte_count), entry.get("sha256", sha256))
        return files

    def may_list(self, name: str) -> bool:
        """Whether ``name`` can be that of a file in such a folder, beside its manifest."""
        parts = name.split("/")
        plain = len(parts) <= self.depth and all(_FILE_NAME.fullmatch(part) for part in parts)
        return plain and name != self.manifest

    def check_all(self, directory: Path, files: Mapping[str, FileEntry], *, verify: bool) -> None:
        """Check every file of a manifest, as ``check`` does."""
        for name, entry in files.items():
            self.check(directory, name, entry, verify=verify)

    def check(self, directory: Path, name: str, entry: FileEntry, *, verify: bool) -> None:
        """Compare a file with its entry: its size, with ``verify`` its hash. Raises BadFileError."""
        self._check_inside(directory, name)
        path = directory / name
        try:
            size = path.stat().st_size if path.is_file() else -1
        except OSError:
            size = -1
        if size < 0:
            raise BadFileError(f"the {self.noun} lacks {name}", hint=self.mend)
        if not os.access(path, os.R_OK):
            raise BadFileError(f"{path} cannot be read: no permission")
        if size != entry.bytes:
            message = f"{name} of the {self.noun} has {size} bytes, not {entry.bytes}"
            raise BadFileError(message, hint=self.mend)
        if verify and sha256_of(path) != entry.sha256:
            raise BadFileError(f"{name} of the {self.noun} fails its SHA-256", hint=self.mend)

    def _check_inside(self, directory: Path, name: str) -> None:
        """A link may lead to another file of the folder, not to one of the user's elsewhere."""
        path = directory / name
        linked = path.is_symlink() or self.depth > 1
        if linked and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory)):
            message = f"{name} of the {self.noun} leads out of it"
            raise BadFileError(message, hint="put the file itself there")


class ListedFolder:
    """The table of contents of a folder. ``files`` lists every file but the manifest itself."""

    __slots__ = ()
    files: Mapping[str, FileEntry]

    @property
    def total_bytes(self) -> int:
        """Bytes of all files listed."""
        return sum(entry.bytes for entry in self.files.values())

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return the entries of all files, as manifests state them."""
        return {name: {"bytes": one.bytes, "sha256": one.sha256} for name, one in self.files.items()}


class ManifestFields:
    """Typed access to one JSON object of a manifest; every failure names the field."""

    def __init__(self, kind: FolderKind, where: str, data: Any) -> None:
        """Raises BadFileError if ``data`` is no object."""
        if not isinstance(data, dict):
            raise kind.broken(f"{where} is not an object")
        self._kind, self._where, self._data = kind, where, data

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def get(self, key: str, decode: Callable[[Any], T]) -> T:
        """Return a field that ``decode`` takes; that raises TypeError for one that is wrong."""
        if key not in self._data:
            raise self._kind.broken(f"{self._where} lacks {key!r}")
        try:
            return decode(self._data[key])
        except TypeError as error:
            raise self._kind.broken(f"{key!r} of {self._where} {error}") from error

    def check_seal(self, known: Collection[str]) -> None:
        """Raise BadFileError where the manifest has not the hash of its own facts.

        Manifests of earlier versions have no hash; their fields are ``known``.
        """
        if SEAL not in self._data:
            if strange := sorted(self._data.keys() - known):
                raise self._kind.broken(f"{strange[0][:40]!r} is none of its fields")
        elif self._data[SEAL] != _hash_of(self._data):
            raise self._kind.broken("its facts fail the SHA-256 in it")

    def below(self, key: str) -> ManifestFields:
        """Return the object in a field."""
        return ManifestFields(self._kind, key, self.get(key, mapping))


def sealed(facts: Mapping[str, Any]) -> str:
    """Return the text of a manifest that states ``facts`` and their hash."""
    return json.dumps({**facts, SEAL: _hash_of(facts)}, indent=2, ensure_ascii=False) + "\n"


def _hash_of(facts: Mapping[str, Any]) -> str:
    told = {name: value for name, value in facts.items() if name != SEAL}
    return sha256_hex(json.dumps(told, sort_keys=True).encode())


def text(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1000 or not value.isprintable():
        raise TypeError("is not a short printable text")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("is not true or false")
    return value


def token_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise TypeError("is not a whole number from 0 on")
    return value


def count(value: Any) -> int:
    if token_id(value) == 0:
        raise TypeError("is zero")
    return int(value)


def byte_count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise TypeError("is not a number of bytes")
    return value


def sha256(value: Any) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise TypeError("is not a SHA-256 in lower-case hexadecimal digits")
    return value


def maybe_id(value: Any) -> int | None:
    return None if value is None else token_id(value)


def token_ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > 1000:
        raise TypeError("is not a short list")
    return tuple(token_id(item) for item in value)


def mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("is not an object")
    return value


def scalars(value: Any) -> dict[str, Scalar]:
    for item in mapping(value).values():
        if not isinstance(item, str | int | float | None):
            raise TypeError("holds more than texts and numbers")
    return dict(value)
