"""Decoding, prefill, load and memory of several runtimes: same weights, token ids and threads.

The sides alternate on every prompt. Ratios are medians over neighbouring measurements of one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from edgedec.bench.harness.energy import Energies, EnergyProbe, Spent, energies_of
from edgedec.bench.harness.journal import Journal
from edgedec.bench.harness.pairing import Spread, pair_ratios, plain, rotated, settle, spread
from edgedec.bench.harness.prepare import prepared
from edgedec.bench.harness.study import Case, OpenSide, Study, StudyRow, StudySide, opened, run_study
from edgedec.bench.harness.worker import Side
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.roofline import Roofline
from edgedec.metrics.traffic import Traffic, Work, decoding_work

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
    spent: list[tuple[int, float | None, str]] = field(default_factory=list)
    """Tokens of the prompt, joules of decoding (None: not measured) and the meter, by measurement."""

    def add(self, took: Mapping[str, Any]) -> None:
        """Add one measurement."""
        self.prefill.append(took["prefill"])
        self.decode.append(took["decode"])
        self.spent.append((took["prompt_tokens"], took.get("joules"), took.get("meter", "")))
        self.peak_rss_bytes = took["peak_rss_bytes"]

    def add_opened(self, facts: Mapping[str, Any]) -> None:
        """Add what a side reported of itself when it loaded its model."""
        self.load_s.append(facts["load_s"])
        self.version, self.isa = facts["version"], facts["isa"]
        self.planned_bytes = facts.get("planned_bytes", {})

    @property
    def surplus_bytes(self) -> int:
        """Peak above ``planned_bytes``; negative where planned pages were never touched."""
        return self.peak_rss_bytes - sum(self.planned_bytes.values())

    def as_json(self) -> dict[str, Any]:
        memory = {**self.planned_bytes, "surplus": self.surplus_bytes}
        return {
            "version": self.version,
            "isa": self.isa,
            "decode_tokens_per_s": plain(spread(self.decode)),
            "prefill_tokens_per_s": plain(spread(self.prefill)),
            "load_s": plain(spread(self.load_s)),
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
            "ratios": plain(self.ratios()),
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
            with opened(StudySide.of(side)) as host:
                measured[side.name].load_s.append(host.facts["load_s"])
                measured[side.name].peak_rss_bytes = _peak(host)
    everyone = [StudySide.of(side) for side in sides]
    # Loading can take much more memory than the loaded model: the largest side loads first.
    first = sorted(everyone, key=lambda side: -measured[side.name].peak_rss_bytes)
    run = Study(
        sides=everyone, cases=_cases(study), total=study.repeat * len(study.prompts),
        ask=partial(_ask, study), warm=partial(_warm, study), first=first, energy=study.energy,
    )  # fmt: skip
    journal: Journal[StudyRow] = run_study(run, Journal(), progress)
    for row in journal.answers.values():
        measured[row.side].add(row.took)
    for name, facts in journal.opened.items():
        measured[name].add_opened(facts)
    return SpeedReport(study, measured)


def _cases(study: SpeedStudy) -> Iterator[Case]:
    """Make a case of each prompt in each round; each round begins with another side."""
    for turn in range(study.repeat * len(study.prompts)):
        yield Case((turn,), turn + turn // len(study.prompts), study.prompts[turn % len(study.prompts)])


def _warm(study: SpeedStudy, host: OpenSide, case: Case, side: StudySide) -> None:
    host.request("generate", tokens=list(study.prompts[0]), max_tokens=_WARM_UP_TOKENS)


def _ask(study: SpeedStudy, host: OpenSide, case: Case, side: StudySide) -> StudyRow:
    study.settle()
    took = host.metered("generate", "decode_s", tokens=list(case.data), max_tokens=study.max_tokens)
    rates = {
        "prompt_tokens": len(case.data),
        "prefill": len(case.data) / took["prefill_s"],
        "decode": (study.max_tokens - 1) / took["decode_s"],
        "peak_rss_bytes": _peak(host),
    }
    return StudyRow(case.key, side.name, {**took, **rates})


def _peak(host: OpenSide) -> int:
    return int(host.request("memory")["peak_rss_bytes"])


def energies_of_speed(
    report: SpeedReport, known: Mapping[str, Traffic], window: int, probe: EnergyProbe
) -> Energies:
    """Return the joules a token of plain decoding."""
    steps = report.study.max_tokens - 1
    spent = {
        name: [
            Spent(steps, decoding_work(tokens, [(0, 0)] * steps, window), 0.0, joules, meter)
            for tokens, joules, meter in side.spent
        ]
        for name, side in report.sides.items()
    }
    return energies_of(spent, known, probe.reason)


def rooflines_of_speed(
    report: SpeedReport, known: Mapping[str, Traffic], window: int, bandwidth_gb_per_s: float
) -> dict[str, Roofline]:
    """Return how near each side came to the bandwidth, by its median speed."""
    study, work = report.study, Work()
    for prompt in study.prompts * study.repeat:
        work = work.with_more(decoding_work(len(prompt), [(0, 0)] * (study.max_tokens - 1), window))
    return {
        name: Roofline(
            traffic.bytes_read(work) / work.passes,
            spread(report.sides[name].decode).median,
            bandwidth_gb_per_s,
        )
        for name, traffic in known.items()
    }
