"""Decoding, prefill, load and memory of several runtimes: same weights, token ids and threads.

The sides alternate on every prompt. Ratios are medians over neighbouring measurements of one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.harness.pairing import Spread, pair_ratios, rotated, rounded, settle, spread
from edgedec.bench.harness.prepare import prepared
from edgedec.bench.harness.worker import Side, Worker
from edgedec.core.progress import Progress

_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class SpeedStudy:
    """Prompts (token ids), each continued by ``max_tokens`` tokens ``repeat`` times."""

    prompts: tuple[tuple[int, ...], ...]
    max_tokens: int
    repeat: int
    settle: Callable[[], None] = settle
    energy: EnergyProbe | None = None


@dataclass(slots=True)
class SideSpeed:
    """Measurements of one side, in the order of the prompts. Rates are tokens per second.

    ``peak_rss_bytes`` is VmHWM of the side's process, interpreter and mapped files included.
    ``planned_bytes`` are the parts of memory that EdgeDec reports: weights and KV cache.
    """

    version: str = ""
    isa: str = ""
    load_s: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    peak_rss_bytes: int = 0
    planned_bytes: dict[str, int] = field(default_factory=dict)
    joules: list[float | None] = field(default_factory=list)
    """Energy of decoding above idle power, by measurement; None where the meter was disturbed."""

    @property
    def surplus_bytes(self) -> int:
        """Peak above ``planned_bytes``; negative where planned pages were never touched."""
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
class SpeedRatios:
    """EdgeDec divided by another side. Above 1: faster (rates), slower (load), larger (peak memory)."""

    decode: Spread
    prefill: Spread
    load: Spread
    peak_rss: float

    @classmethod
    def of(cls, ours: SideSpeed, other: SideSpeed) -> SpeedRatios:
        return cls(
            spread(pair_ratios(ours.decode, other.decode)),
            spread(pair_ratios(ours.prefill, other.prefill)),
            spread(pair_ratios(ours.load_s, other.load_s)),
            ours.peak_rss_bytes / other.peak_rss_bytes if other.peak_rss_bytes else float("nan"),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "decode": self.decode.as_json(),
            "prefill": self.prefill.as_json(),
            "load": self.load.as_json(),
            "peak_rss": rounded(self.peak_rss),
        }


@dataclass(frozen=True, slots=True)
class SpeedReport:
    """Measurements by side, EdgeDec first."""

    study: SpeedStudy
    sides: dict[str, SideSpeed]

    def ratios(self) -> dict[str, SpeedRatios]:
        """Return EdgeDec's ratios to each other side."""
        (_, first), *others = self.sides.items()
        return {name: SpeedRatios.of(first, other) for name, other in others}

    def as_json(self) -> dict[str, Any]:
        return {
            "prompts": len(self.study.prompts),
            "prompt_tokens": [len(prompt) for prompt in self.study.prompts],
            "max_tokens": self.study.max_tokens,
            "repeat": self.study.repeat,
            "sides": {name: side.as_json() for name, side in self.sides.items()},
            "ratios": {name: ratios.as_json() for name, ratios in self.ratios().items()},
        }


def measure_speed(sides: Sequence[Side], study: SpeedStudy, progress: Progress) -> SpeedReport:
    """Load every side ``repeat`` times in fresh processes, then let the last ones take turns on the prompts.

    Raises the errors of ``prepared`` and ``Worker``.
    """
    sides = prepared(sides, progress)
    measured = {side.name: SideSpeed() for side in sides}
    loads = study.repeat * len(sides)
    for turn in range(study.repeat - 1):
        for number, side in enumerate(rotated(sides, turn)):
            progress("loading", turn * len(sides) + number, loads)
            with Worker(side) as worker:
                _open(worker, measured[side.name])
    workers: dict[str, Worker] = {}
    with ExitStack() as stack:
        # Loading can take much more memory than the loaded model: the largest side loads first.
        for side in sorted(sides, key=lambda side: -measured[side.name].peak_rss_bytes):
            workers[side.name] = stack.enter_context(Worker(side))
            _open(workers[side.name], measured[side.name])
        progress("loading", loads, loads)
        _take_turns([workers[side.name] for side in sides], study, measured, progress)
        for name, worker in workers.items():
            measured[name].peak_rss_bytes = _peak(worker)
    return SpeedReport(study, measured)


def _open(worker: Worker, into: SideSpeed) -> None:
    facts = worker.open()
    into.load_s.append(facts["load_s"])
    into.version, into.isa = facts["version"], facts["isa"]
    into.planned_bytes = facts.get("planned_bytes", {})
    into.peak_rss_bytes = _peak(worker)


def _peak(worker: Worker) -> int:
    return int(worker.request("memory")["peak_rss_bytes"])


def _take_turns(
    workers: Sequence[Worker], study: SpeedStudy, measured: dict[str, SideSpeed], progress: Progress
) -> None:
    for worker in workers:
        worker.request("generate", tokens=list(study.prompts[0]), max_tokens=_WARM_UP_TOKENS)
    total = study.repeat * len(study.prompts)
    for turn in range(total):
        progress("measuring", turn, total)
        prompt = study.prompts[turn % len(study.prompts)]
        # Each repetition begins with another side, so that every side begins each prompt once.
        for worker in rotated(workers, turn + turn // len(study.prompts)):
            study.settle()
            with ExitStack() as stack:
                watch = stack.enter_context(study.energy.watch()) if study.energy else None
                took = worker.request("generate", tokens=list(prompt), max_tokens=study.max_tokens)
            into = measured[worker.side.name]
            if watch:
                into.joules.append(watch.last(took["decode_s"]))
            into.prefill.append(len(prompt) / took["prefill_s"])
            into.decode.append((study.max_tokens - 1) / took["decode_s"])
    progress("measuring", total, total)
