"""A model with a store of its own, as tests of the public API open it."""

from __future__ import annotations

from pathlib import Path

import edgedec
from edgedec.models import Store


def opened(bundle: Path, home: Path, **settings: object) -> edgedec.Model:
    """Open ``bundle`` on one thread and without drafts, unless ``settings`` say otherwise."""
    given = {"threads": 1, "context": 256, "draft": "off", **settings}
    return edgedec.open(bundle, store=Store(home, notice=lambda line: None), **given)  # type: ignore[arg-type]
