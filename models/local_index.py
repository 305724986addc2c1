"""Remembering the hash of a local GGUF, so that starting with the same file twice does not read it twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgedec.core.files import atomic_path
from edgedec.models.layout import slug


class LocalIndex:
    """path -> (bytes, modification time, name in the store). A damaged index counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def name_of(self, gguf: Path) -> str | None:
        """The store's name for this file, if it was seen and has not changed since."""
        entry = self._read().get(str(gguf.resolve()))
        if isinstance(entry, list) and len(entry) == 3 and entry[:2] == _stamp(gguf):
            name = entry[2]
            return name if isinstance(name, str) and name == slug(name) else None
        return None

    def remember(self, gguf: Path, name: str) -> None:
        """Record the file as it is now. Raises StorageError."""
        entries = self._read()
        entries[str(gguf.resolve())] = [*_stamp(gguf), name]
        with atomic_path(self._path) as temporary:
            temporary.write_text(json.dumps(entries, indent=1), encoding="utf-8")

    def _read(self) -> dict[str, Any]:
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return entries if isinstance(entries, dict) else {}


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
