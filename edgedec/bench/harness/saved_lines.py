"""A file of lines of JSON that grows while a study runs, and from which it goes on after a stop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgedec.core.errors import BadFileError, UsageError
from edgedec.disk.files import storage_errors


class SavedLines:
    """Lines behind a first one that holds ``conditions``, all that a measurement depends on, and their hash.

    Without a path nothing is kept.
    """

    def __init__(self, conditions: Mapping[str, Any], path: Path | None) -> None:
        self._conditions = json.loads(json.dumps(dict(conditions)))  # as the file has them
        self._path = path

    def resume(self, take: Callable[[dict[str, Any]], None]) -> None:
        """Let ``take`` have every line of the file, if it exists. An incomplete last line is dropped.

        Raises UsageError for a file made under other conditions, BadFileError for a damaged one, also where
        ``take`` raises ValueError, TypeError, KeyError or AttributeError, StorageError for one that cannot be
        written.
        """
        if self._path is None:
            return
        with storage_errors(str(self._path)):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            data = self._path.read_bytes() if self._path.exists() else b""
            first = _line({"conditions": self._conditions, "hash": digest(self._conditions)})
            if data != first and first.startswith(data):  # new, or stopped within its first line
                self._path.write_bytes(first)
            else:
                self._read(self._path, data, take)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write a line. Raises StorageError."""
        if self._path is not None:
            with storage_errors(str(self._path)), self._path.open("ab") as file:
                file.write(_line(line))

    def _read(self, path: Path, data: bytes, take: Callable[[dict[str, Any]], None]) -> None:
        whole = data[: data.rfind(b"\n") + 1]
        try:
            first, *lines = [json.loads(line) for line in whole.splitlines()]
            self._check(first["conditions"], path)
            for line in lines:
                take(line)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BadFileError(
                f"{path} holds no saved replies, or is damaged", hint="name another file"
            ) from error
        if len(whole) < len(data):  # the study was stopped in the middle of a line
            with path.open("r+b") as file:
                file.truncate(len(whole))

    def _check(self, found: Mapping[str, Any], path: Path) -> None:
        different = [name for name, value in self._conditions.items() if found.get(name) != value]
        if different or len(found) != len(self._conditions):
            shown = ", ".join(f"{name} {found.get(name)}" for name in different) or "others"
            raise UsageError(
                f"{path} was measured under other conditions: {shown}",
                hint="give the same options, or name another file",
            )


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def digest(conditions: Mapping[str, Any]) -> str:
    text = json.dumps(conditions, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
