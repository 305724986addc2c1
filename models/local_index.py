"""Remember the hash of a local model, so that a second start with it does not read it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgedec.disk.files import atomic_path
from edgedec.models.layout import slug


class LocalIndex:
    """Map a path to bytes, time of modification and name in the store. A damaged index counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def name_of(self, model: Path) -> str | None:
        """Return the name in the store of a file or directory; None if it is unknown or has changed."""
        entry = self._read().get(str(model.resolve()))
        if isinstance(entry, list) and len(entry) == 3 and entry[:2] == _stamp(model):
            name = entry[2]
            return name if isinstance(name, str) and name == slug(name) else None
        return None

    def remember(self, model: Path, name: str) -> None:
        """Record the file or directory as it is now. Raises StorageError."""
        entries = self._read()
        entries[str(model.resolve())] = [*_stamp(model), name]
        with atomic_path(self._path) as temporary:
            temporary.write_text(json.dumps(entries, indent=1), encoding="utf-8", newline="\n")

    def _read(self) -> dict[str, Any]:
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return entries if isinstance(entries, dict) else {}


def _stamp(path: Path) -> list[int]:
    from edgedec.export.gguf_parts import gguf_files

    files = [file for file in (path.iterdir() if path.is_dir() else gguf_files(path)) if file.is_file()]
    statuses = [file.stat() for file in files]
    return [sum(s.st_size for s in statuses), max((s.st_mtime_ns for s in statuses), default=0)]
