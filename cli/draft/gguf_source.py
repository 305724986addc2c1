"""Finds the GGUF file that a model was made of."""

from __future__ import annotations

from pathlib import Path

from edgedec.core.errors import NotFoundError, UsageError
from edgedec.models.layout import Layout


def gguf_of(home: Path, named: str) -> Path:
    """Return the GGUF file ``named``, or the one that was kept when the model of that name was pulled.

    Raises NotFoundError, and UsageError for what is no file.
    """
    if Path(named).is_file():
        return Path(named)
    if Path(named).exists():
        raise UsageError(f"{named} is no GGUF file", hint="--from names the file that the model was made of")
    kept = sorted(Layout(home).kept(named).glob("*.gguf"))
    if not kept:
        raise NotFoundError(
            f"no GGUF file of {named} is kept", hint=f"`edgedec pull {named} --keep-source`, or --from FILE"
        )
    return kept[0]
