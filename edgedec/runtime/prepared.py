"""Tables of drafters that were prepared for a model: a start without history drafts from them at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import TABLES
from edgedec.core.errors import EdgeDecError
from edgedec.core.progress import Notice
from edgedec.draft import Drafter
from edgedec.memory.ledger import SLACK, Ledger
from edgedec.runtime.companions import companion

if TYPE_CHECKING:
    from edgedec.runtime.loaded_model import LoadedModel

MOST_BYTES = 4_000_000
"""The most that all tables of a model may have; a larger file is not read."""
SUFFIX = ".table"
"""Behind the name of the drafter in the name of its file, which holds what ``Drafter.saved`` returned."""


def prepare(
    model: LoadedModel, drafters: Sequence[Drafter], home: Path | None, ledger: Ledger, notice: Notice
) -> None:
    """Give the drafters their prepared tables, if there are some for this model.

    Damaged tables, or those of another model, cost a line to ``notice``. The tables fill the memory that
    drafters have for what they learn, and need more only while they are read.
    """
    able = [one for one in drafters if one.caps.remembers]
    if not able:
        return
    try:
        folder = companion(model.manifest, TABLES, home)
        if folder is None:
            return
        for name in {one.name for one in able}:
            _restore(folder / f"{name}{SUFFIX}", [one for one in able if one.name == name], model, ledger)
    except (EdgeDecError, ValueError, OSError) as error:
        notice(f"note: {model.name} runs without its prepared tables: {error}")


def _restore(file: Path, drafters: Sequence[Drafter], model: LoadedModel, ledger: Ledger) -> None:
    if not file.is_file():
        return
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{file.name} has more than {MOST_BYTES} bytes")
    with ledger.lease(SLACK, size):
        data = file.read_bytes()
        for drafter in drafters:
            drafter.restore(data, model.spec.vocab_size)
