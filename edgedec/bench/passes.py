"""What one pass over k tokens costs beside a pass over one, and how near decoding is to the memory's speed.

Drafted tokens are checked in one pass, so this curve decides how many are worth drafting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgedec.bench.summary import Spread, rounded, spread
from edgedec.core.errors import UsageError
from edgedec.core.types import ALL_ROWS, Forward

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PassCost:
    """Time in ms of a pass over ``tokens`` tokens, and its ratio to the pass over one in the same round."""

    tokens: int
    ms: Spread
    relative: Spread

    def as_json(self) -> dict[str, float]:
        return {
            "tokens": self.tokens,
            "ms": rounded(self.ms.median),
            "relative": rounded(self.relative.median),
            "ms_low": rounded(self.ms.low),
            "ms_high": rounded(self.ms.high),
            "relative_low": rounded(self.relative.low),
            "relative_high": rounded(self.relative.high),
        }


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Costs of passes of one model on one kernel row. ``weight_bytes`` are read once per pass."""

    model: str
    isa: str
    threads: int
    resident: int
    weight_bytes: int
    bandwidth_gb_s: float
    passes: tuple[PassCost, ...]

    @property
    def bandwidth_fraction(self) -> float:
        """Weights read per second by passes over one token, as a fraction of the measured bandwidth."""
        one = next(cost for cost in self.passes if cost.tokens == 1)
        return self.weight_bytes / (one.ms.median * 1e-3) / (self.bandwidth_gb_s * 1e9)

    def as_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "isa": self.isa,
            "threads": self.threads,
            "resident_tokens": self.resident,
            "weight_bytes": self.weight_bytes,
            "bandwidth_gb_s": rounded(self.bandwidth_gb_s),
            "bandwidth_fraction": rounded(self.bandwidth_fraction),
            "passes": [cost.as_json() for cost in self.passes],
        }


def measure_passes(
    forward: Forward,
    counts: Sequence[int],
    *,
    resident: int,
    repeat: int,
    clock: Callable[[], float],
    progress: Progress,
) -> tuple[PassCost, ...]:
    """Time passes over each of ``counts`` tokens (and 1) with ``resident`` tokens in the cache, heads of all
    rows included. Each of ``repeat`` rounds goes through all counts, the next one starting further on, so
    that a slow moment of the machine does not fall on one of them. Raises UsageError when it does not fit.
    """
    sizes = sorted({1, *counts})
    _check(forward, sizes, resident)
    tokens = np.random.default_rng(0).integers(0, forward.spec.vocab_size, resident + sizes[-1]).tolist()
    _fill(forward, tokens[:resident])
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for round in range(repeat + 1):  # the first one warms up: buffers are made, pages touched
        for index in range(len(sizes)):
            size = sizes[(round + index) % len(sizes)]
            started = clock()
            forward.extend(tokens[resident : resident + size], rows=ALL_ROWS)
            took = clock() - started
            forward.rewind(resident)
            if round:
                times[size].append(took)
            progress(round * len(sizes) + index + 1, (repeat + 1) * len(sizes))
    ones = times[1]
    return tuple(
        PassCost(size, spread(1e3 * t for t in took), spread(a / b for a, b in zip(took, ones, strict=True)))
        for size, took in times.items()
    )


def _check(forward: Forward, sizes: Sequence[int], resident: int) -> None:
    if sizes[0] < 1 or sizes[-1] > forward.caps.max_pass:
        raise UsageError(f"a pass takes 1 to {forward.caps.max_pass} tokens", hint="see --tokens")
    if resident + sizes[-1] > forward.capacity:
        raise UsageError(
            f"{resident} resident tokens and {sizes[-1]} new ones do not fit in {forward.capacity}",
            hint="choose a smaller --resident or smaller passes",
        )


def _fill(forward: Forward, tokens: Sequence[int]) -> None:
    forward.rewind(0)
    for start in range(0, len(tokens), forward.caps.max_pass):
        forward.extend(tokens[start : start + forward.caps.max_pass])
