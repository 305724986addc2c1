"""Is it the same model? Teacher-forced on real text, every side sees the same tokens in the same windows.

A side writes the logits of one window to a file, which is compared with the reference's and removed, so
memory and disk stay bounded whatever the length of the text: a row of a large vocabulary is a megabyte.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.bench.divergence import Divergence
from edgedec.bench.worker import Side, Worker
from edgedec.core.errors import BackendError
from edgedec.core.files import storage_errors

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens of one pass from an empty cache, and the text's token after the last one, if it goes on."""

    tokens: tuple[int, ...]
    after: int | None = None

    @property
    def following(self) -> list[int]:
        """The token that the text has after each of the window's."""
        return [*self.tokens[1:], *([] if self.after is None else [self.after])]


@dataclass(frozen=True, slots=True)
class FaithfulReport:
    """Each side's divergence from the reference, over the same positions."""

    reference: str
    window: int
    sides: dict[str, Divergence]
    versions: dict[str, str]

    def as_json(self) -> dict[str, object]:
        return {
            "reference": self.reference,
            "window": self.window,
            "versions": self.versions,
            "sides": {name: divergence.as_json() for name, divergence in self.sides.items()},
        }


def windows_of(tokens: Sequence[int], size: int, bos: int | None) -> list[Window]:
    """Cut a text into windows of at most ``size`` tokens, each begun with ``bos`` if there is one."""
    head = () if bos is None else (bos,)
    step = size - len(head)
    windows = []
    for start in range(0, len(tokens), step):
        end = min(start + step, len(tokens))
        windows.append(Window((*head, *tokens[start:end]), tokens[end] if end < len(tokens) else None))
    return windows


def compare(
    reference: Side, sides: Sequence[Side], windows: Sequence[Window], *, progress: Progress
) -> FaithfulReport:
    """Run all windows through the reference and every side. Raises what ``Worker`` does, and StorageError."""
    found = {side.name: Divergence() for side in sides}
    versions = {}
    everyone = [reference, *sides]
    total = len(windows) * len(everyone)
    with ExitStack() as stack:
        stack.enter_context(storage_errors("the logits of a window"))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgedec-bench-")))
        workers = []
        for number, side in enumerate(everyone):
            progress(f"loading {side.name}", number, len(everyone))
            workers.append(stack.enter_context(Worker(side)))
            versions[side.name] = str(workers[-1].open()["version"])
        progress("loading", len(everyone), len(everyone))
        for index, window in enumerate(windows):
            expected = None
            for number, worker in enumerate(workers):
                progress("comparing", index * len(everyone) + number, total)
                rows = _logits(worker, window, scratch / f"{number}.npy")
                if expected is None:
                    expected = rows
                else:
                    found[worker.side.name].add(expected, rows, window.following)
    progress("comparing", total, total)
    return FaithfulReport(reference.name, max(len(w.tokens) for w in windows), found, versions)


def _logits(worker: Worker, window: Window, path: Path) -> NDArray[np.float32]:
    worker.request("logits", tokens=list(window.tokens), path=str(path))
    rows: NDArray[np.float32] = np.load(path, mmap_mode="r")
    path.unlink()  # the mapping keeps the data until it is dropped
    if rows.ndim != 2 or len(rows) != len(window.tokens):
        raise BackendError(f"{worker.side.name} gave logits of shape {rows.shape}")
    if not np.isfinite(rows[-1]).all():
        raise BackendError(f"{worker.side.name} gave logits that are not numbers")
    return rows
