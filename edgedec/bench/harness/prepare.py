"""Models in a runtime's own form, made once of a GGUF file and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgedec.bench.harness.worker import Side, Worker
from edgedec.core.progress import Progress
from edgedec.disk.locks import exclusive


def prepared(sides: Sequence[Side], progress: Progress) -> list[Side]:
    """Return the sides with the models they open. A side with a ``cache`` makes its model there first.

    A separate process makes it, so its time and memory do not count. Raises the errors of ``Worker``, and
    StorageError.
    """
    return [_prepared(side, progress) if side.cache else side for side in sides]


def _prepared(side: Side, progress: Progress) -> Side:
    assert side.cache is not None
    stage = f"preparing {side.name}"
    progress(stage, 0, 1)
    with exclusive(side.cache / f"{side.name}.lock", lambda: None), Worker(side) as worker:
        made = worker.request("prepare", model=str(side.model), folder=str(side.cache))
    progress(stage, 1, 1)
    return replace(side, model=Path(made["model"]))
