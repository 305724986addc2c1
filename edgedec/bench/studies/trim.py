"""Trimmed heads over their size: tokens covered, time and bytes of a draft step, and the gain by both.

The drafter that is compared has the model's head behind one of its layers, and drafts chains of ``STEPS``
tokens. With its full head ``ACCEPTANCE`` of its tokens are right; a trimmed head loses those outside the
subset. Times are measured on this machine: whole passes of the model with each head, and the pass that
verifies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from edgedec.bench.harness.pairing import pair_ratios, rotated, rounded
from edgedec.bench.studies.weights import PassWeights
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import ALL_ROWS, LAST_ROW, Keep, Rows
from edgedec.draft.subset import (
    STRETCH,
    TILE,
    Counts,
    best_ids,
    best_tiles,
    coverage,
    coverages,
    expected,
    tiles_of,
)
from edgedec.metrics.mbsu import Mbsu, chain_efficiency, mbsu

SIZES = (2048, 4096, 8192, 16384, 32768)
STEPS = 4
ACCEPTANCE = 0.7
_RESIDENT = 64
LEAST_COVERAGE = 0.95
"""Share of held-out tokens that a head must cover to be chosen.

Texts differ more from each other than replies to prompts of one file do, and drafters with more layers lose
more by a token that is missing.
"""
_WORTH = 0.01
"""A larger head has to gain this share of the tokens per second: timings differ by as much."""


@dataclass(frozen=True, slots=True)
class Subset:
    """Ids of a head, ascending. ``whole``: they fill stretches of tiles, and were chosen as such."""

    ids: Keep
    whole: bool
    vocab_size: int

    @property
    def full(self) -> bool:
        """Whether they are the whole vocabulary."""
        return self.ids.size == self.vocab_size

    @property
    def rows(self) -> int:
        """Rows of the table that a pass reads: those of whole tiles."""
        return min(TILE * tiles_of(self.ids), self.vocab_size)

    @property
    def share(self) -> float:
        """The part of the table that a pass reads."""
        return self.rows / self.vocab_size


def subsets(counts: Counts, always: Keep, sizes: Sequence[int] = SIZES) -> list[Subset]:
    """Return subsets of each size, of whole tiles and of single ids, and the whole vocabulary last.

    A size that reads as much as the whole vocabulary is left out.
    """
    found, likely = [], expected(counts)
    for size in sorted(sizes):
        for ids, whole in (
            (best_tiles(likely, always, size, STRETCH), True),
            (best_ids(likely, always, size), False),
        ):
            subset = Subset(ids, whole, counts.size)
            if subset.ids.size < counts.size:
                found.append(subset)
    return [*found, Subset(np.arange(counts.size, dtype=np.int64), True, counts.size)]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times in s: of a pass over one token with each subset, and of one that verifies a chain.

    That of the last subset is a median. The others follow from the median ratio to its pass in the same
    round, so that other load slows all alike.
    """

    steps: Sequence[float]
    verify: float


def time_steps(
    forward: Forward,
    heads: Sequence[Subset],
    *,
    repeat: int,
    progress: Progress,
    clock: Callable[[], float] = time.perf_counter,
) -> StepTimes:
    """Time passes with every head in turn, ``repeat`` rounds, each round beginning with another one.

    Raises UnsupportedError for a model whose head cannot be trimmed.
    """
    require_trims(forward.spec.name, forward.caps)
    kinds = [LAST_ROW if head.full else Rows(last=True, keep=head.ids) for head in heads]
    tokens = np.random.default_rng(0).integers(0, forward.spec.vocab_size, _RESIDENT + 1 + STEPS).tolist()
    resident, new = tokens[:_RESIDENT], tokens[_RESIDENT:]
    forward.rewind(0)
    for start in range(0, _RESIDENT, forward.caps.max_pass):
        forward.extend(resident[start : start + forward.caps.max_pass])
    took: list[list[float]] = [[] for _ in range(len(kinds) + 1)]
    passes = [*((kind, new[:1]) for kind in kinds), (ALL_ROWS, new)]
    for turn in range(repeat + 1):  # the first one warms up
        for place in rotated(range(len(passes)), turn):
            rows, fed = passes[place]
            began = clock()
            forward.extend(fed, rows=rows)
            if turn:
                took[place].append(clock() - began)
            forward.rewind(_RESIDENT)
        progress("passes", turn + 1, repeat + 1)
    full, verify = took[-2:]
    base = float(np.median(full))
    steps = [base * float(np.median(pair_ratios(times, full))) for times in took[:-1]]
    return StepTimes(steps, base * float(np.median(pair_ratios(verify, full))))


def require_trims(model: str, caps: Capabilities) -> None:
    """Raise UnsupportedError unless the head can compute some of its ids only."""
    if not caps.trims:
        raise UnsupportedError(
            f"the head of {model} cannot be trimmed: its bundle has no graph for drafting",
            hint="export or pull the model again",
        )


@dataclass(frozen=True, slots=True)
class TrimPoint:
    """One subset. ``step_s``: a pass of the whole model over one token with that head, in s."""

    subset: Subset
    coverage: float
    by_category: Mapping[str, float]
    step_s: float
    draft_s: float
    """A step of the drafter that is compared: one layer and the head."""
    draft_bytes: float
    acceptance: float
    mbsu: Mbsu
    tokens_per_s: float
    """Predicted: the chain's block efficiency for the time of its round."""

    def as_json(self) -> dict[str, Any]:
        return {
            "ids": int(self.subset.ids.size),
            "rows_read": self.subset.rows,
            "whole_tiles": self.subset.whole,
            "coverage": rounded(self.coverage),
            "coverage_by_category": {name: rounded(value) for name, value in self.by_category.items()},
            "step_ms": rounded(1e3 * self.step_s),
            "draft_step_ms": rounded(1e3 * self.draft_s),
            "draft_step_bytes": int(self.draft_bytes),
            "acceptance": rounded(self.acceptance),
            "mbsu": rounded(self.mbsu.streamed),
            "mbsu_parameters": rounded(self.mbsu.parameters),
            "tokens_per_s": rounded(self.tokens_per_s),
        }


@dataclass(frozen=True)
class TrimReport:
    """All subsets of a model, the whole vocabulary last. ``held_out``: counts of replies, by category."""

    model: str
    layers: int
    weights: PassWeights
    held_out: Mapping[str, Counts]
    heads: Sequence[Subset]
    times: StepTimes
    counted_tokens: int
    acceptance: float = ACCEPTANCE
    asked: bool = False
    """The first subset was asked for, and is chosen whatever its figures."""

    @cached_property
    def points(self) -> tuple[TrimPoint, ...]:
        """The figures of every subset."""
        total = np.sum(list(self.held_out.values()), axis=0)
        return tuple(self._point(place, total) for place in range(len(self.heads)))

    @property
    def full(self) -> TrimPoint:
        """The whole vocabulary."""
        return self.points[-1]

    @cached_property
    def chosen(self) -> TrimPoint:
        """The smallest head that drafts about as well as the best one, or the one asked for.

        Only heads that cover ``LEAST_COVERAGE`` are compared.
        """
        if self.asked:
            return self.points[0]
        compared = [point for point in self.points if point.coverage >= LEAST_COVERAGE]
        best = max(point.tokens_per_s for point in compared)
        good = [point for point in compared if point.tokens_per_s >= (1.0 - _WORTH) * best]
        return min(good, key=lambda point: (point.subset.rows, -point.tokens_per_s))

    def gain(self, point: TrimPoint) -> Mbsu:
        """MBSU of a trimmed head over the full one."""
        full = self.full.mbsu
        return Mbsu(point.mbsu.streamed / full.streamed, point.mbsu.parameters / full.parameters)

    def reason(self) -> str:
        """Say in one sentence why the chosen head was chosen."""
        chosen, full = self.chosen, self.full
        if self.asked:
            return f"{chosen.subset.ids.size:,} ids, as asked"
        if chosen.subset.full:
            return (
                f"the full head: no trimmed one covers {LEAST_COVERAGE:.0%} of held-out tokens and saves "
                "more time than it loses drafts"
            )
        kind = "in whole tiles" if chosen.subset.whole else "one by one"
        return (
            f"{chosen.subset.ids.size:,} ids, {kind}: they cover {chosen.coverage:.1%} of held-out tokens, a "
            f"draft step takes {chosen.draft_s / full.draft_s:.2f} of its time with the full head, and no "
            f"other head that covers {LEAST_COVERAGE:.0%} is predicted to gain {_WORTH:.0%} more"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "counted_tokens": self.counted_tokens,
            "held_out_tokens": int(sum(int(counts.sum()) for counts in self.held_out.values())),
            "steps": STEPS,
            "acceptance": self.acceptance,
            "verify_ms": rounded(1e3 * self.times.verify),
            "heads": [point.as_json() for point in self.points],
            "chosen": self.chosen.as_json() | {"mbsu_gain": rounded(self.gain(self.chosen).streamed)},
            "reason": self.reason(),
        }

    @cached_property
    def _body_s(self) -> float:
        """Time of a pass without its head: where the line of times over rows read begins, in s."""
        whole = [place for place, head in enumerate(self.heads) if head.whole]
        if len(whole) < 2:
            return 0.0
        rows = [self.heads[place].rows for place in whole]
        _, begin = np.polyfit(rows, [self.times.steps[place] for place in whole], 1)
        return float(np.clip(begin, 0.0, min(self.times.steps)))

    def _point(self, place: int, total: Counts) -> TrimPoint:
        head, step_s, layers = self.heads[place], self.times.steps[place], self.layers
        covered = coverage(head.ids, total)
        accepted = self.acceptance * covered
        efficiency = chain_efficiency(accepted, STEPS)
        draft_s = step_s - self._body_s * (1.0 - 1.0 / layers)
        one_layer = PassWeights(
            self.weights.head + (self.weights.streamed - self.weights.head) // layers,
            self.weights.head,
            self.weights.lookup,
        ).trimmed(head.share)
        return TrimPoint(
            head,
            covered,
            coverages(head.ids, self.held_out),
            step_s,
            draft_s,
            one_layer.streamed,
            accepted,
            mbsu(efficiency, STEPS, one_layer, self.weights.trimmed(1.0)),
            efficiency / (STEPS * draft_s + self.times.verify),
        )
