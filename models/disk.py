"""Check before a download that it will fit on the disk."""

from __future__ import annotations

import math
from pathlib import Path

from edgedec.core.errors import StorageError
from edgedec.core.units import size
from edgedec.models.recipes import BUNDLE_GROWTH

_MARGIN = 16 << 20
_GRIDS = {"IQ1": 2.2, "IQ2": 1.65, "IQ3": 1.45, "TQ1": 1.25}
"""Growth of types whose weights are packed in more bits than the file has."""


def bytes_under(directory: Path) -> int:
    """Return the bytes of the regular files in a directory tree; 0 when it does not exist."""
    total = 0
    for path in directory.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
        except FileNotFoundError:  # another process removed it just now
            continue
    return total


def bundle_growth(file_name: str) -> float:
    """Return how many times the bytes of a GGUF file its bundle has at most, by the types in the file's name.

    >>> bundle_growth("m-Q4_K_M.gguf"), bundle_growth("m-UD-IQ2_XXS.gguf")
    (1.03, 1.65)
    """
    from edgedec.models.hub_choice import quant_of

    quant = (quant_of(file_name) or "").removeprefix("UD-")
    return next((growth for begin, growth in _GRIDS.items() if quant.startswith(begin)), BUNDLE_GROWTH)


def check_space(
    directory: Path,
    gguf_bytes: int,
    *,
    present: int = 0,
    download: bool = True,
    growth: float = BUNDLE_GROWTH,
) -> None:
    """Raise StorageError, which states the bytes needed, unless a model fits below ``directory``.

    At the peak the downloaded parts lie beside the joined file of ``gguf_bytes``, and later that file beside
    the bundle: a little more than two files, as a rule. ``present`` bytes of it are on the disk already.
    Without ``download`` only the bundle is written. ``growth``: see ``bundle_growth``.
    """
    needed = math.ceil(gguf_bytes * (growth + (1 if download else 0))) - present + _MARGIN
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    import shutil  # imports all formats of archives

    free = shutil.disk_usage(existing).free
    if free < needed:
        raise StorageError(
            f"not enough space in {directory}: {size(needed)} needed, {size(free)} free",
            hint=f"free {size(needed - free)}, or set EDGEDEC_HOME to a directory on another disk",
        )
