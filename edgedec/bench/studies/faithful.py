"""Agreement of next-token predictions with reference logits, on the same windows of real text.

A side writes the logits of one window to a file, which is compared with the reference's and removed. Memory
and disk therefore stay bounded for texts of any length.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.bench.harness.energy import EnergyProbe, MeterWatch
from edgedec.bench.harness.pairing import rounded
from edgedec.bench.harness.worker import Side, Worker
from edgedec.core.errors import BackendError
from edgedec.core.files import storage_errors
from edgedec.core.progress import Progress

_CHUNK_ELEMENTS = 4 << 20
"""Logits compared at a time. As float64 they take 32 MB an array."""


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return row-wise log probabilities f64[R, V] of logits f32[R, V]."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide


@dataclass(slots=True)
class Divergence:
    """Comparison of one side with the reference, row by row. ``kl[i]`` is KL(reference || side) in nats."""

    agreed: list[bool] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    """-log p(next token of the text) by the side, for rows whose next token is known."""
    reference_loss: list[float] = field(default_factory=list)

    def add(
        self, reference: NDArray[np.float32], side: NDArray[np.float32], following: Sequence[int]
    ) -> None:
        """Compare logits f32[R, V], a few rows at a time; ``following[i]`` is the text's token after row i.

        A vocabulary that is padded beyond the other's is cut to it. There may be fewer ``following`` than
        rows.
        """
        width = min(reference.shape[1], side.shape[1])
        step = max(1, _CHUNK_ELEMENTS // width)
        for start in range(0, len(reference), step):
            chunk = slice(start, start + step)
            self._add(reference[chunk, :width], side[chunk, :width], following[chunk])

    def _add(
        self, reference: NDArray[np.float32], side: NDArray[np.float32], following: Sequence[int]
    ) -> None:
        self.agreed += (reference.argmax(axis=1) == side.argmax(axis=1)).tolist()
        log_p, log_q = log_softmax(reference), log_softmax(side)
        known = np.arange(len(following))
        self.reference_loss += (-log_p[known, following]).tolist()
        self.loss += (-log_q[known, following]).tolist()
        self.kl += (np.exp(log_p) * (log_p - log_q)).sum(axis=1).tolist()

    @property
    def top1_agreement(self) -> float:
        """Fraction of rows whose best token is the same."""
        return float(np.mean(self.agreed))

    @property
    def kl_mean(self) -> float:
        """Mean KL(reference || side) in nats."""
        return float(np.mean(self.kl))

    def as_json(self) -> dict[str, float | int]:
        return {
            "positions": len(self.kl),
            "disagreements": len(self.agreed) - sum(self.agreed),
            "top1_agreement": rounded(self.top1_agreement),
            "kl_mean": rounded(self.kl_mean),
            "kl_median": rounded(float(np.median(self.kl))),
            "kl_p99": rounded(float(np.percentile(self.kl, 99))),
            "kl_max": rounded(max(self.kl)),
            "perplexity": rounded(float(np.exp(np.mean(self.loss)))),
            "reference_perplexity": rounded(float(np.exp(np.mean(self.reference_loss)))),
        }


@dataclass(frozen=True, slots=True)
class TextWindow:
    """Tokens of one pass from an empty cache, and the text's token after the last one, if there is one."""

    tokens: tuple[int, ...]
    after: int | None = None

    @property
    def following(self) -> list[int]:
        """The text's next token after each token of the window."""
        return [*self.tokens[1:], *([] if self.after is None else [self.after])]


@dataclass(frozen=True, slots=True)
class WindowRead:
    """How a side read one window: ``passes`` has [tokens, filled slots after it] of each, where it tells.

    ``joules`` by the ``meter`` are those of the whole request above idle power, the logits' way to the file
    included; None where that was not measured.
    """

    tokens: int
    passes: list[list[int]] = field(default_factory=list)
    joules: float | None = None
    meter: str = ""


@dataclass(frozen=True, slots=True)
class FaithfulReport:
    """Each side's divergence from the reference over the same positions, and how all of them read."""

    reference: str
    window: int
    sides: dict[str, Divergence]
    versions: dict[str, str]
    reads: dict[str, list[WindowRead]] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {
            "reference": self.reference,
            "window": self.window,
            "versions": self.versions,
            "sides": {name: divergence.as_json() for name, divergence in self.sides.items()},
        }


def windows_of(tokens: Sequence[int], size: int, bos: int | None) -> list[TextWindow]:
    """Cut a text into windows of at most ``size`` tokens, each begun with ``bos`` if there is one."""
    head = () if bos is None else (bos,)
    step = size - len(head)
    windows = []
    for start in range(0, len(tokens), step):
        end = min(start + step, len(tokens))
        windows.append(TextWindow((*head, *tokens[start:end]), tokens[end] if end < len(tokens) else None))
    return windows


def compare_logits(
    reference: Side,
    sides: Sequence[Side],
    windows: Sequence[TextWindow],
    progress: Progress,
    probe: EnergyProbe | None = None,
) -> FaithfulReport:
    """Run all windows through every side; ``probe`` measures their joules.

    Raises the errors of ``Worker``, and StorageError.
    """
    reads: dict[str, list[WindowRead]] = {}
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
                rows, read = _logits(worker, window, scratch / f"{number}.npy", probe)
                reads.setdefault(worker.side.name, []).append(read)
                if expected is None:
                    expected = rows
                else:
                    found[worker.side.name].add(expected, rows, window.following)
    progress("comparing", total, total)
    longest = max(len(window.tokens) for window in windows)
    return FaithfulReport(reference.name, longest, found, versions, reads)


def _logits(
    worker: Worker, window: TextWindow, path: Path, probe: EnergyProbe | None
) -> tuple[NDArray[np.float32], WindowRead]:
    with probe.watch() if probe else nullcontext(MeterWatch()) as watch:
        took = worker.request("logits", tokens=list(window.tokens), path=str(path))
    joules = watch.last(inf)
    meter = probe.meter if probe and joules is not None else ""
    rows: NDArray[np.float32] = np.load(path, mmap_mode="r")
    path.unlink()  # the mapping keeps the data
    if rows.ndim != 2 or len(rows) != len(window.tokens):
        raise BackendError(f"{worker.side.name} gave logits of shape {rows.shape}")
    if not np.isfinite(rows[-1]).all():
        raise BackendError(f"{worker.side.name} gave logits that are not numbers")
    return rows, WindowRead(len(window.tokens), took.get("passes", []), joules, meter)
