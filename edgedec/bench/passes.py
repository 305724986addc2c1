"""What one pass over k tokens costs beside a pass over one, and how near decoding is to the memory's speed.

Drafted tokens are checked in one pass, so this curve decides how many are worth drafting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from edgedec.bench.summary import Spread, rounded, spread
from edgedec.bench.turns import settle, turns
from edgedec.bench.worker import Worker
from edgedec.core.errors import UsageError
from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS

Progress = Callable[[int, int], None]
Times = Mapping[int, Sequence[float]]
"""Tokens in a pass to its time in s in every round."""
OURS = "edgedec"


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
class PeerCost:
    """The same pass of a peer. ``ratio``: its time by ours in the same round; above 1 ours is faster."""

    cost: PassCost
    ratio: Spread

    def as_json(self) -> dict[str, float]:
        return {
            **self.cost.as_json(),
            "ratio": rounded(self.ratio.median),
            "ratio_low": rounded(self.ratio.low),
            "ratio_high": rounded(self.ratio.high),
        }


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Costs of passes of one model on one kernel row. ``weight_bytes`` are read once per pass.

    ``peers``: the same passes of other runtimes, by name; ``versions`` what those are and run on. ``kv``: how
    the cache keeps keys and values, None where another runtime decides that.
    """

    model: str
    isa: str
    threads: int
    resident: int
    weight_bytes: int
    bandwidth_gb_s: float
    passes: tuple[PassCost, ...]
    peers: Mapping[str, tuple[PeerCost, ...]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    kv: str | None = "fp16"

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
            "kv": self.kv,
            "weight_bytes": self.weight_bytes,
            "bandwidth_gb_s": rounded(self.bandwidth_gb_s),
            "bandwidth_fraction": rounded(self.bandwidth_fraction),
            "passes": [cost.as_json() for cost in self.passes],
            "peers": {name: [cost.as_json() for cost in costs] for name, costs in self.peers.items()},
            "versions": dict(self.versions),
        }


class _Side(Protocol):
    def run(self, size: int) -> float:
        """Time in s of a pass over ``size`` tokens, after which the cache is as before."""


class _Local:
    """Passes of a ``Forward`` in this process."""

    def __init__(
        self, forward: Forward, tokens: Sequence[int], resident: int, clock: Callable[[], float]
    ) -> None:
        self._forward, self._clock, self._resident = forward, clock, resident
        self._new = tokens[resident:]
        forward.rewind(0)
        for start in range(0, resident, forward.caps.max_pass):
            forward.extend(tokens[start : min(start + forward.caps.max_pass, resident)])

    def run(self, size: int) -> float:
        started = self._clock()
        self._forward.extend(self._new[:size], rows=ALL_ROWS)
        took = self._clock() - started
        self._forward.rewind(self._resident)
        return took


class _Remote:
    """Passes of a peer in a process of its own, which holds the clock."""

    def __init__(self, worker: Worker, tokens: Sequence[int], resident: int) -> None:
        self._worker, self._new = worker, tokens[resident:]
        worker.request("fill", tokens=list(tokens[:resident]))

    def run(self, size: int) -> float:
        return float(self._worker.request("extend", tokens=list(self._new[:size]))["seconds"])


def measure_passes(
    forward: Forward,
    counts: Sequence[int],
    *,
    resident: int,
    repeat: int,
    clock: Callable[[], float],
    progress: Progress,
    peers: Sequence[Worker] = (),
    settle: Callable[[], None] = settle,
) -> dict[str, Times]:
    """Time passes over each of ``counts`` tokens (and 1) with ``resident`` tokens in the cache, heads of all
    rows included, of ours and of ``peers``, by the side's name. Each of ``repeat`` rounds goes through all
    counts, the next one starting further on, so that a slow moment of the machine does not fall on one of
    them; at each count the sides take turns. Raises UsageError when it does not fit, and what Worker does.
    """
    sizes = sorted({1, *counts})
    _check(forward, sizes, resident)
    tokens = np.random.default_rng(0).integers(0, forward.spec.vocab_size, resident + sizes[-1]).tolist()
    sides: dict[str, _Side] = {OURS: _Local(forward, tokens, resident, clock)}
    sides |= {worker.side.name: _Remote(worker, tokens, resident) for worker in peers}
    times: dict[str, dict[int, list[float]]] = {name: {size: [] for size in sizes} for name in sides}
    for round in range(repeat + 1):  # the first one warms up: buffers are made, pages touched
        for index in range(len(sizes)):
            size = sizes[(round + index) % len(sizes)]
            for name in turns(list(sides), round + index):
                if peers:
                    settle()
                    sides[name].run(1)  # wakes its threads, and takes the caches back from the other
                took = sides[name].run(size)
                if round:
                    times[name][size].append(took)
            progress(round * len(sizes) + index + 1, (repeat + 1) * len(sizes))
    return dict(times)


def costs(times: Times) -> tuple[PassCost, ...]:
    """What the passes of one side cost, fewest tokens first."""
    return tuple(
        PassCost(size, spread(1e3 * t for t in took), spread(_ratios(took, times[1])))
        for size, took in times.items()
    )


def peer_costs(theirs: Times, ours: Times) -> tuple[PeerCost, ...]:
    """What the passes of a peer cost, and how much longer they take than ours."""
    return tuple(
        PeerCost(cost, spread(_ratios(theirs[cost.tokens], ours[cost.tokens]))) for cost in costs(theirs)
    )


def _ratios(some: Sequence[float], others: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(some, others, strict=True)]


def _check(forward: Forward, sizes: Sequence[int], resident: int) -> None:
    if sizes[0] < 1 or sizes[-1] > forward.caps.max_pass:
        raise UsageError(f"a pass takes 1 to {forward.caps.max_pass} tokens", hint="see --tokens")
    if resident + sizes[-1] > forward.capacity:
        raise UsageError(
            f"{resident} resident tokens and {sizes[-1]} new ones do not fit in {forward.capacity}",
            hint="choose a smaller --resident or smaller passes",
        )
