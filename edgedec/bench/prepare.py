"""What some runtimes need before they can run a GGUF file: a model in their own form, made once and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgedec.bench.worker import Side, Worker
from edgedec.models.locks import exclusive

Progress = Callable[[str, int, int], None]


def prepared(sides: Sequence[Side], progress: Progress) -> list[Side]:
    """The sides with the models they open: a side with a ``cache`` makes its own there, unless it is there.

    That happens in a process of its own, whose time and memory are not the runtime's. Raises what ``Worker``
    raises, and StorageError.
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
