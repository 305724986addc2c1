"""Speed of several runtimes in the same run: same weights, same token ids, same threads, taking turns.

Machines get warm and have other things to do; so the sides alternate on every prompt, and what is compared is
each prompt's pair of neighbouring measurements, not two averages from different minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from edgedec.bench.summary import Spread, rounded, spread
from edgedec.bench.worker import Side, Worker

Progress = Callable[[str, int, int], None]
T = TypeVar("T")

SETTLE_S = 0.05
"""Pause before a side's turn, in which the other's threads stop spinning."""
_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: ``repeat`` times, ``prompts`` (token ids) continued by ``max_tokens``."""

    prompts: tuple[tuple[int, ...], ...]
    max_tokens: int
    repeat: int


@dataclass(slots=True)
class Measured:
    """Everything one side was measured at, in the order of the prompts; rates are tokens per second."""

    version: str = ""
    isa: str = ""
    load_s: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    peak_rss_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "isa": self.isa,
            "decode_tokens_per_s": spread(self.decode).as_json(),
            "prefill_tokens_per_s": spread(self.prefill).as_json(),
            "load_s": spread(self.load_s).as_json(),
            "peak_rss_bytes": self.peak_rss_bytes,
        }


@dataclass(frozen=True, slots=True)
class Ratios:
    """The first side by another: above 1 it is faster (rates), slower (load) or larger (RSS)."""

    decode: Spread
    prefill: Spread
    load: Spread
    peak_rss: float

    def as_json(self) -> dict[str, Any]:
        return {
            "decode": self.decode.as_json(),
            "prefill": self.prefill.as_json(),
            "load": self.load.as_json(),
            "peak_rss": rounded(self.peak_rss),
        }


@dataclass(frozen=True, slots=True)
class VersusReport:
    """Results by side, the first one being ours."""

    plan: Plan
    sides: dict[str, Measured]

    def ratios(self) -> dict[str, Ratios]:
        """Ours by each peer's name, from pairs of measurements that were neighbours in time."""
        (_, first), *others = self.sides.items()
        return {name: _ratios(first, other) for name, other in others}

    def as_json(self) -> dict[str, Any]:
        return {
            "prompts": len(self.plan.prompts),
            "prompt_tokens": [len(prompt) for prompt in self.plan.prompts],
            "max_tokens": self.plan.max_tokens,
            "repeat": self.plan.repeat,
            "sides": {name: side.as_json() for name, side in self.sides.items()},
            "ratios": {name: ratios.as_json() for name, ratios in self.ratios().items()},
        }


def _ratios(ours: Measured, other: Measured) -> Ratios:
    def paired(a: Sequence[float], b: Sequence[float]) -> Spread:
        return spread(x / y for x, y in zip(a, b, strict=True))

    return Ratios(
        paired(ours.decode, other.decode),
        paired(ours.prefill, other.prefill),
        paired(ours.load_s, other.load_s),
        ours.peak_rss_bytes / other.peak_rss_bytes if other.peak_rss_bytes else float("nan"),
    )


def compare(
    sides: Sequence[Side],
    plan: Plan,
    *,
    progress: Progress,
    settle: Callable[[], None] = lambda: time.sleep(SETTLE_S),
) -> VersusReport:
    """Load every side ``repeat`` times in fresh processes, then let the last ones take turns on the prompts.

    Raises what ``Worker`` raises.
    """
    measured = {side.name: Measured() for side in sides}
    loads = plan.repeat * len(sides)
    for round in range(plan.repeat - 1):
        for number, side in enumerate(_turns(sides, round)):
            progress("loading", round * len(sides) + number, loads)
            with Worker(side) as worker:
                measured[side.name].load_s.append(worker.open()["load_s"])
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(side)) for side in sides]
        for worker in workers:
            _open(worker, measured[worker.side.name])
        progress("loading", loads, loads)
        _measure(workers, plan, measured, progress, settle)
        for worker in workers:
            measured[worker.side.name].peak_rss_bytes = worker.request("memory")["peak_rss_bytes"]
    return VersusReport(plan, measured)


def _open(worker: Worker, into: Measured) -> None:
    facts = worker.open()
    into.load_s.append(facts["load_s"])
    into.version, into.isa = facts["version"], facts["isa"]


def _measure(
    workers: Sequence[Worker],
    plan: Plan,
    measured: dict[str, Measured],
    progress: Progress,
    settle: Callable[[], None],
) -> None:
    for worker in workers:
        worker.request("generate", tokens=list(plan.prompts[0]), max_tokens=_WARM_UP_TOKENS)
    total = plan.repeat * len(plan.prompts)
    for turn in range(total):
        progress("measuring", turn, total)
        prompt = plan.prompts[turn % len(plan.prompts)]
        # a new round also begins with another side, so that each prompt is begun by each
        for worker in _turns(workers, turn + turn // len(plan.prompts)):
            settle()
            took = worker.request("generate", tokens=list(prompt), max_tokens=plan.max_tokens)
            into = measured[worker.side.name]
            into.prefill.append(len(prompt) / took["prefill_s"])
            into.decode.append((plan.max_tokens - 1) / took["decode_s"])
    progress("measuring", total, total)


def _turns(sides: Sequence[T], turn: int) -> list[T]:
    """The sides in the order of one turn: the first one moves on by one each time."""
    start = turn % len(sides)
    return [*sides[start:], *sides[:start]]
