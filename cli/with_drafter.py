"""Fetches the drafter that comes with a model of the catalogue, behind the model itself."""

from __future__ import annotations

from pathlib import Path

from edgedec.cli import progress
from edgedec.core.errors import EdgeDecError
from edgedec.core.progress import Progress
from edgedec.core.units import size
from edgedec.models.store import Store


def with_drafter(bundle: Path, store: Store, report: Progress, without: str) -> str | None:
    """Fetch the drafter that others trained for a model, or the draft model known to suit it.

    Returns its repository or name; None if none is missing, or it could not be had. The model is ready
    without it: a hindrance costs a line. ``without``: how to leave it out.
    """
    from edgedec.models.pairs import missing_drafter, missing_published

    if found := missing_published(bundle, store.home):
        name, amount = found.repo, f"about {size(found.bytes)}"
        again = f"edgedec draft import {name} -m {bundle.name}"
    elif draft := missing_drafter(bundle, store):
        name, amount, again = draft.name, size(draft.recipe.bytes), f"edgedec pull {draft.name}"
    else:
        return None
    progress.notice(f"{bundle.name} comes with a drafter: {name}, {amount}; {without} leaves it out")
    try:
        if found:
            from edgedec.cli.draft.import_ import fetch_head

            fetch_head(name, bundle, store.home)
        else:
            store.pull(name, progress=report)
    except EdgeDecError as error:
        progress.notice(f"note: {bundle.name} runs without {name}: {error.message}; `{again}` tries again")
        return None
    return name
