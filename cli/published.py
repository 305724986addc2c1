"""Fetches the drafter that others trained for a model of the catalogue, behind the model itself."""

from __future__ import annotations

from pathlib import Path

from edgedec.cli import progress
from edgedec.core.errors import EdgeDecError
from edgedec.core.units import size


def with_published(bundle: Path, home: Path, without: str) -> str | None:
    """Fetch the drafter that others trained for a model; return its repository, or None.

    The model is ready without it: what hinders it costs a line. ``without``: how to leave it out.
    """
    from edgedec.cli.draft.import_ import fetch_head
    from edgedec.models.pairs import missing_published

    found = missing_published(bundle, home)
    if found is None:
        return None
    amount = f"about {size(found.bytes)}"
    progress.notice(f"{bundle.name} comes with a drafter: {found.repo}, {amount}; {without} leaves it out")
    try:
        fetch_head(found.repo, bundle, home)
    except EdgeDecError as error:
        again = f"`edgedec draft import {found.repo} -m {bundle.name}` tries again"
        progress.notice(f"note: {bundle.name} runs without {found.repo}: {error.message}; {again}")
        return None
    return found.repo
