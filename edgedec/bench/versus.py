"""Speed of several runtimes in the same run: same weights, same token ids, same threads, taking turns.

Machines get warm and have other things to do; so the sides alternate on every prompt, and what is compared is
each prompt's pair of neighbouring measurements, not two averages from different minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from edgedec.bench.prepare import prepared
from edgedec.bench.summary import Spread, rounded, spread
from edgedec.bench.turns import settle, turns
from edgedec.bench.worker import Side, Worker

Progress = Callable[[str, int, int], None]
_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: ``repeat`` times, ``prompts`` (token ids) continued by ``max_tokens``."""

    prompts: tuple[tuple[int, ...], ...]
    max_tokens: int
    repeat: int


@dataclass(slots=True)
class Measured:
    """Everything one side was measured at, in the order of the prompts; rates are tokens per second.

    ``peak_rss_bytes``: VmHWM of the side's process, interpreter and mapped pages of files included.
    ``planned_bytes``: what a side says its memory is for (ours: ``weights`` and ``kv_cache``), or nothing.
    """

    version: str = ""
    isa: str = ""
    load_s: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    peak_rss_bytes: int = 0
    planned_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def surplus_bytes(self) -> int:
        """What the peak is above what was planned; negative where planned pages were never touched."""
        return self.peak_rss_bytes - sum(self.planned_bytes.values())

    def as_json(self) -> dict[str, Any]:
        memory = {**self.planned_bytes, "surplus": self.surplus_bytes}
        return {
            "version": self.version,
            "isa": self.isa,
            "decode_tokens_per_s": spread(self.decode).as_json(),
            "prefill_tokens_per_s": spread(self.prefill).as_json(),
            "load_s": spread(self.load_s).as_json(),
            "peak_rss_bytes": self.peak_rss_bytes,
            **({"memory_bytes": memory} if self.planned_bytes else {}),
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
    settle: Callable[[], None] = settle,
) -> VersusReport:
    """Load every side ``repeat`` times in fresh processes, one after the other, then let the last ones take
    turns on the prompts. Raises what ``prepared`` and ``Worker`` raise.
    """
    sides = prepared(sides, progress)
    measured = {side.name: Measured() for side in sides}
    loads = plan.repeat * len(sides)
    for round in range(plan.repeat - 1):
        for number, side in enumerate(turns(sides, round)):
            progress("loading", round * len(sides) + number, loads)
            with Worker(side) as worker:
                _open(worker, measured[side.name])
    workers: dict[str, Worker] = {}
    with ExitStack() as stack:
        # Loading can take much more memory than what is loaded: the largest goes first, while there is most.
        for side in sorted(sides, key=lambda side: -measured[side.name].peak_rss_bytes):
            workers[side.name] = stack.enter_context(Worker(side))
            _open(workers[side.name], measured[side.name])
        progress("loading", loads, loads)
        _measure([workers[side.name] for side in sides], plan, measured, progress, settle)
        for name, worker in workers.items():
            measured[name].peak_rss_bytes = _peak(worker)
    return VersusReport(plan, measured)


def _open(worker: Worker, into: Measured) -> None:
    facts = worker.open()
    into.load_s.append(facts["load_s"])
    into.version, into.isa = facts["version"], facts["isa"]
    into.planned_bytes = facts.get("planned_bytes", {})
    into.peak_rss_bytes = _peak(worker)


def _peak(worker: Worker) -> int:
    return int(worker.request("memory")["peak_rss_bytes"])


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
        for worker in turns(workers, turn + turn // len(plan.prompts)):
            settle()
            took = worker.request("generate", tokens=list(prompt), max_tokens=plan.max_tokens)
            into = measured[worker.side.name]
            into.prefill.append(len(prompt) / took["prefill_s"])
            into.decode.append((plan.max_tokens - 1) / took["decode_s"])
    progress("measuring", total, total)
