"""Check the size and hash of a GGUF."""

from __future__ import annotations

from pathlib import Path

from edgedec.core.errors import BadFileError
from edgedec.core.progress import Progress, counted
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import sha256_of


@dataclass(frozen=True, slots=True)
class Expected:
    """The name of a file, and its bytes and SHA-256 where they are known."""

    file_name: str
    bytes: int | None = None
    sha256: str | None = None


def check(path: Path, expected: Expected, progress: Progress) -> None:
    """Raise BadFileError unless ``path`` has the expected size and hash."""
    size = path.stat().st_size
    if expected.bytes is not None and size != expected.bytes:
        raise BadFileError(f"{path.name} has {size} bytes instead of {expected.bytes}", hint="get it anew")
    if expected.sha256 is None:
        return
    digest = sha256_of(path, counted(progress, "verify", size))
    if digest != expected.sha256:
        raise wrong_hash(expected, digest)


def wrong_hash(expected: Expected, digest: str) -> BadFileError:
    """Return the error for a file that is not the one that the recipe names."""
    return BadFileError(
        f"{expected.file_name} is not the expected file: "
        f"SHA-256 {digest[:16]}... instead of {(expected.sha256 or '')[:16]}...",
        hint="pull it again; if it stays so, the source serves another file",
    )
