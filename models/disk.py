"""Knowing before the download that it will fit."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

from edgedec.core.errors import StorageError
from edgedec.core.units import size
from edgedec.models.recipes import BUNDLE_GROWTH

_MARGIN = 16 << 20


def bytes_under(directory: Path) -> int:
    """Bytes of the regular files in a directory tree; 0 when it does not exist."""
    total = 0
    for path in directory.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
        except FileNotFoundError:  # removed while we looked
            continue
    return total


def check_space(directory: Path, gguf_bytes: int, *, present: int = 0, download: bool = True) -> None:
    """Raise StorageError, with the number needed, unless a model of ``gguf_bytes`` fits below ``directory``.

    The peak is the downloaded parts beside the joined file, then the file beside the bundle: two files and a
    bit. ``present`` bytes of it are on the disk already; without ``download`` only the bundle is written.
    """
    needed = math.ceil(gguf_bytes * (BUNDLE_GROWTH + (1 if download else 0))) - present + _MARGIN
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise StorageError(
            f"not enough space in {directory}: {size(needed)} needed, {size(free)} free",
            hint=f"free {size(needed - free)}, or set EDGEDEC_HOME to a directory on another disk",
        )
