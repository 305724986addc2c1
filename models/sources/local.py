"""Use a GGUF that is on the disk already."""

from __future__ import annotations

from pathlib import Path

from edgedec.core.errors import NotFoundError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.sources import NO_FACTS
from edgedec.models.sources.verify import Expected, check


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file that is used in its place: neither copied nor removed."""

    path: Path
    expected: Expected

    kind = "local file"
    facts = NO_FACTS

    @property
    def origin(self) -> str:
        """The file's name, without its directory, which is private."""
        return self.path.name

    def fetch(self, into: Path, progress: Progress) -> Path:
        """Verify the file and return its path."""
        if not self.path.is_file():
            raise NotFoundError(f"no such file: {self.path}")
        check(self.path, self.expected, progress)
        return self.path
