"""Cost of one pass over k tokens relative to a pass over one, and the memory bandwidth that decoding uses.

Drafted tokens are verified in one pass, so this curve decides how many are worth drafting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from edgedec.bench.harness.pairing import Spread, pair_ratios, rotated, rounded, settle, spread
from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.harness.worker import Worker
from edgedec.bench.studies.energies import Energies
from edgedec.core.errors import UsageError
from edgedec.core.forward import Forward
from edgedec.core.progress import Progress
from edgedec.core.rows import ALL_ROWS

PassTimes = Mapping[int, Sequence[float]]
"""Tokens in a pass -> its time in s in every round."""


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
    """The same pass of another runtime. ``ratio`` is its time divided by EdgeDec's in the same round."""

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
    """Pass costs of one model on one kernel row. Every pass reads ``weight_bytes`` once.

    ``peers``: the same passes of other runtimes. ``energies``: joules a token, by tokens of a pass. ``kv``:
    type of the KV cache, None where another runtime chooses it.
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
    energies: Energies | None = None

    @property
    def bandwidth_fraction(self) -> float:
        """Weights read per second by passes over one token, divided by the measured bandwidth."""
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
            **({"energy": self.energies.as_json()} if self.energies else {}),
        }


@dataclass(frozen=True, slots=True)
class PassStudy:
    """Passes to time: their numbers of tokens, the tokens in the cache before, and rounds."""

    counts: Sequence[int]
    resident: int
    repeat: int
    clock: Callable[[], float] = time.perf_counter
    settle: Callable[[], None] = settle

    @property
    def sizes(self) -> list[int]:
        return sorted({1, *self.counts})


class _Timed(Protocol):
    def run(self, size: int) -> float:
        """Time a pass over ``size`` tokens in s. The cache is as before afterwards."""


class _Local:
    """Passes of a ``Forward`` in this process."""

    def __init__(
        self,
        forward: Forward,
        tokens: Sequence[int],
        study: PassStudy,
        around: Callable[[int, Callable[[], float]], float],
    ) -> None:
        self._around = around
        self._forward, self._clock, self._resident = forward, study.clock, study.resident
        self._new = tokens[study.resident :]
        forward.rewind(0)
        for start in range(0, study.resident, forward.caps.max_pass):
            forward.extend(tokens[start : min(start + forward.caps.max_pass, study.resident)])

    def run(self, size: int) -> float:
        took = self._around(size, lambda: self._pass(size))
        self._forward.rewind(self._resident)
        return took

    def _pass(self, size: int) -> float:
        started = self._clock()
        self._forward.extend(self._new[:size], rows=ALL_ROWS)
        return self._clock() - started


class _Remote:
    """Passes of a peer in a process of its own, which holds the clock."""

    def __init__(self, worker: Worker, tokens: Sequence[int], study: PassStudy) -> None:
        self._worker, self._new = worker, tokens[study.resident :]
        worker.request("fill", tokens=list(tokens[: study.resident]))

    def run(self, size: int) -> float:
        return float(self._worker.request("extend", tokens=list(self._new[:size]))["seconds"])


def measure_passes(
    forward: Forward,
    peers: Sequence[Worker],
    study: PassStudy,
    progress: Progress,
    around: Callable[[int, Callable[[], float]], float] = lambda size, run: run(),
) -> dict[str, PassTimes]:
    """Time passes of EdgeDec and of ``peers`` with logits of all rows, by the side's name.

    Every round goes through all numbers of tokens and begins with another one, so that a slow moment of the
    machine does not fall on one of them. The sides take turns at each number. ``around`` gets the tokens of
    each pass of EdgeDec and what runs it, and returns its seconds. Raises UsageError when a pass does not
    fit, and the errors of ``Worker``.
    """
    sizes = study.sizes
    _check(forward, study)
    count = study.resident + sizes[-1]
    tokens = np.random.default_rng(0).integers(0, forward.spec.vocab_size, count).tolist()
    sides: dict[str, _Timed] = {EDGEDEC: _Local(forward, tokens, study, around)}
    sides |= {worker.side.name: _Remote(worker, tokens, study) for worker in peers}
    times: dict[str, dict[int, list[float]]] = {name: {size: [] for size in sizes} for name in sides}
    for turn in range(study.repeat + 1):  # the first round warms up: buffers are made, pages touched
        for index in range(len(sizes)):
            size = sizes[(turn + index) % len(sizes)]
            for name in rotated(list(sides), turn + index):
                if peers:
                    study.settle()
                    sides[name].run(1)  # wakes its threads, and fills the CPU's caches again
                took = sides[name].run(size)
                if turn:
                    times[name][size].append(took)
            progress("passes", turn * len(sizes) + index + 1, (study.repeat + 1) * len(sizes))
    return dict(times)


def pass_costs(times: PassTimes) -> tuple[PassCost, ...]:
    """Return the pass costs of one side, fewest tokens first."""
    return tuple(
        PassCost(size, spread(1e3 * t for t in took), spread(pair_ratios(took, times[1])))
        for size, took in times.items()
    )


def peer_costs(theirs: PassTimes, ours: PassTimes) -> tuple[PeerCost, ...]:
    """Return the pass costs of a peer, with ratios to EdgeDec's."""
    return tuple(
        PeerCost(cost, spread(pair_ratios(theirs[cost.tokens], ours[cost.tokens])))
        for cost in pass_costs(theirs)
    )


def _check(forward: Forward, study: PassStudy) -> None:
    most, longest = study.sizes[-1], forward.caps.max_pass
    if study.sizes[0] < 1 or most > longest:
        raise UsageError(f"a pass takes 1 to {longest} tokens, not {most}")
    if study.resident + most > forward.capacity:
        raise UsageError(
            f"{study.resident} resident tokens and {most} new ones do not fit in {forward.capacity}",
            hint="choose fewer resident tokens or shorter passes",
        )
