"""Ways to draft within a model: how often each agrees with it, what a step takes, and what that can gain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgedec.bench.harness.pairing import pair_ratios, rotated, rounded
from edgedec.core.forward import Forward
from edgedec.core.progress import Progress
from edgedec.core.rows import ALL_ROWS, Keep
from edgedec.draft.exit import Way
from edgedec.runtime.target_drafters import speed_of

_RESIDENT = 64
_VERIFIED = 5
"""Tokens of the longer pass, by which one more token in a pass is timed."""


@dataclass(frozen=True, slots=True)
class WayTimes:
    """Times in passes over one token: a step of each way, and one more token in a pass that verifies."""

    steps: Mapping[Way, float]
    more: float

    def __or__(self, other: WayTimes) -> WayTimes:
        """Return these, with the steps of ``other`` too."""
        return WayTimes({**self.steps, **other.steps}, self.more)


def time_ways(
    forward: Forward,
    ways: Sequence[Way],
    keep: Keep | None,
    *,
    repeat: int,
    progress: Progress,
    clock: Callable[[], float] = time.perf_counter,
) -> WayTimes:
    """Time a step of each way beside passes over one token and over five, ``repeat`` rounds.

    Each round begins with another one. Ratios are medians over rounds, so that other load slows all alike.
    """
    tokens = np.random.default_rng(0).integers(0, forward.spec.vocab_size, _RESIDENT + _VERIFIED).tolist()
    resident, new = tokens[:_RESIDENT], tokens[_RESIDENT:]
    forward.rewind(0)
    for start in range(0, _RESIDENT, forward.caps.max_pass):
        forward.extend(resident[start : start + forward.caps.max_pass])

    def step(way: Way) -> None:
        forward.peek(new[:1], exit=way.exit, keep=keep, bypass=way.bypass)

    calls: list[Callable[[], object]] = [lambda way=way: step(way) for way in ways]  # type: ignore[misc]
    calls += [lambda: forward.extend(new[:1]), lambda: forward.extend(new, rows=ALL_ROWS)]
    took: list[list[float]] = [[] for _ in calls]
    for turn in range(repeat + 1):  # the first one warms up
        for place in rotated(range(len(calls)), turn):
            began = clock()
            calls[place]()
            if turn:
                took[place].append(clock() - began)
            forward.rewind(_RESIDENT)
        progress("passes", turn + 1, repeat + 1)
    *steps, plain, several = took
    ratios = [float(np.median(pair_ratios(times, plain))) for times in (*steps, several)]
    more = max(ratios[-1] - 1.0, 0.0) / (_VERIFIED - 1)
    return WayTimes(dict(zip(ways, ratios, strict=False)), more)


@dataclass(frozen=True, slots=True)
class ExitReport:
    """The table of a model. ``names``: what each way is called; ``tokens``: those asked for agreement."""

    model: str
    names: Mapping[Way, str]
    agreement: Mapping[Way, float]
    corrected: Mapping[Way, float]
    """Agreement with the correction that a drafter of this way learns while it decodes."""
    times: WayTimes
    tokens: int
    ids: int | None
    """Ids of the trimmed head; None: the whole vocabulary."""

    def speed(self, way: Way) -> float:
        """Speed over plain decoding of its best chain, predicted by its corrected agreement and times.

        A pass after a draft is charged as a whole one, although it takes over the work of the layers below
        the exit for all drafted tokens but the last.
        """
        return speed_of(self.corrected[way], self.times.steps[way], self.times.more)

    def needed(self, way: Way) -> float | None:
        """Least agreement at which the way gains a tenth; None where none would do."""
        for percent in range(1, 101):
            if speed_of(percent / 100, self.times.steps[way], self.times.more) >= 1.1:
                return percent / 100
        return None

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "tokens": self.tokens,
            "ids": self.ids,
            "one_more_token": rounded(self.times.more),
            "ways": [
                {
                    "name": name,
                    "agreement": rounded(self.agreement[way]),
                    "corrected": rounded(self.corrected[way]),
                    "step": rounded(self.times.steps[way]),
                    "needed": self.needed(way),
                    "predicted_speed": rounded(self.speed(way)),
                }
                for way, name in self.names.items()
            ],
        }
