"""Agreement of next-token predictions with reference logits, on the same windows of real text.

A side writes the logits of one window to a file, which is compared with the reference's and removed. Memory
and disk therefore stay bounded for texts of any length.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field
from math import inf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.bench.harness.energy import Energies, EnergyProbe, Spent, energies_of
from edgedec.bench.harness.journal import Journal
from edgedec.bench.harness.pairing import rounded
from edgedec.bench.harness.study import Case, OpenSide, Study, StudyRow, StudySide, run_study
from edgedec.bench.harness.worker import Side
from edgedec.core.errors import BackendError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import storage_errors
from edgedec.metrics.traffic import Traffic, Work

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
class FaithfulReport:
    """Each side's divergence from the reference over the same positions.

    ``reads``: how each side read each window; ``passes`` has [tokens, filled slots after it] where it tells.
    """

    reference: str
    window: int
    sides: dict[str, Divergence]
    versions: dict[str, str]
    reads: Sequence[StudyRow] = ()

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
    found = {side.name: Divergence() for side in sides}
    everyone = [StudySide.of(side) for side in (reference, *sides)]
    expected: list[NDArray[np.float32]] = []
    with ExitStack() as stack:
        stack.enter_context(storage_errors("the logits of a window"))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgedec-bench-")))

        def ask(host: OpenSide, case: Case, side: StudySide) -> StudyRow:
            """Read one window, and compare it with the reference, which comes first."""
            window: TextWindow = case.data
            path = scratch / "rows.npy"
            took = host.metered("logits", inf, tokens=list(window.tokens), path=str(path))
            rows = _rows(path, side.name, len(window.tokens))
            if side.name == reference.name:
                expected[:] = [rows]
            else:
                found[side.name].add(expected[0], rows, window.following)
            return StudyRow(case.key, side.name, {**took, "tokens": len(window.tokens)})

        cases = [Case((number,), 0, window) for number, window in enumerate(windows)]
        run = Study(
            sides=everyone, cases=cases, total=len(cases), ask=ask, first=everyone, energy=probe
        )  # fmt: skip
        journal: Journal[StudyRow] = run_study(run, Journal(), progress)
    longest = max(len(window.tokens) for window in windows)
    versions = {name: str(facts["version"]) for name, facts in journal.opened.items()}
    return FaithfulReport(reference.name, longest, found, versions, [*journal.answers.values()])


def _rows(path: Path, side: str, count: int) -> NDArray[np.float32]:
    """Map the logits that a side wrote. Raises BackendError for others than those asked for."""
    rows: NDArray[np.float32] = np.load(path, mmap_mode="r")
    path.unlink()  # the mapping keeps the data
    if rows.ndim != 2 or len(rows) != count:
        raise BackendError(f"{side} gave logits of shape {rows.shape}")
    if not np.isfinite(rows[-1]).all():
        raise BackendError(f"{side} gave logits that are not numbers")
    return rows


def energies_of_windows(
    reads: Sequence[StudyRow], known: Mapping[str, Traffic], window: int, reason: str
) -> Energies:
    """Return the joules of each token that was read, the logits' way to the file included.

    ``window``: see ``Work.plus``.
    """
    spent: dict[str, list[Spent]] = {}
    for row in reads:
        work, took = Work(), row.took
        for tokens, slots in took.get("passes", ()):
            work = work.plus(tokens, slots, window)
        found = Spent(took["tokens"], work, 0.0, took.get("joules"), took.get("meter", ""))
        spent.setdefault(row.side, []).append(found)
    return energies_of(spent, known, reason)
