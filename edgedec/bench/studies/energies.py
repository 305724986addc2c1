"""Joules a token of the sides of a study: all measured by one meter, or all estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgedec.bench.harness.energy import EnergyProbe, TokenEnergy
from edgedec.bench.harness.journal import SideAnswer
from edgedec.bench.harness.pairing import spread
from edgedec.bench.studies.drafts import DraftsReport
from edgedec.bench.studies.speed import SpeedReport
from edgedec.core.manifest import WEIGHTS, Manifest
from edgedec.memory import KvType
from edgedec.runtime.measures import traffic_of
from edgedec.telemetry.roof import Roof
from edgedec.telemetry.traffic import Traffic, Work, decoding_work

_GGUF_READERS = ("llama.cpp",)
"""Runtimes that read the bytes of the GGUF file itself; what others make of it is not known here."""


@dataclass(frozen=True, slots=True)
class Energies:
    """Joules a token by side; a side that cannot be estimated is missing. ``reason``: why not measured."""

    by_side: Mapping[str, TokenEnergy]
    reason: str = ""

    @property
    def estimated(self) -> bool:
        return any(one.estimated for one in self.by_side.values())

    def as_json(self) -> dict[str, Any]:
        why = {"reason": self.reason} if self.reason else {}
        return {"sides": {name: one.as_json() for name, one in self.by_side.items()}, **why}

    def heading(self) -> str:
        """Return a line on the source of these figures."""
        source = next((one.source for one in self.by_side.values()), "")
        if not self.estimated:
            return f"mJ/token: above idle power, measured by {source}"
        return f"mJ/token: an estimate with its bounds, not a measurement; {source}; {self.reason}"


def traffics(
    processes: Iterable[str], manifest: Manifest, gguf: Path | None, kv: KvType
) -> dict[str, Traffic]:
    """Return the traffic of each process that is known: EdgeDec's, and those that read the GGUF file."""
    own = traffic_of(manifest.spec, manifest.files[WEIGHTS].bytes, kv)
    found = {}
    for name in processes:
        if name.startswith("edgedec"):
            found[name] = own
        elif name in _GGUF_READERS and gguf is not None:
            found[name] = traffic_of(manifest.spec, gguf.stat().st_size, None)
    return found


def energies_of_replies(
    answers: Mapping[str, Sequence[SideAnswer]],
    known: Mapping[str, Traffic],
    window: int,
    reason: str,
) -> Energies:
    """Return the joules a token of replies; ``known`` has the traffic by side."""
    decoded = {side: sum(one.decoded for one in found) for side, found in answers.items()}
    every = [one for found in answers.values() for one in found if one.decoded > 0]
    meters = {one.meter for one in every}
    if len(meters) == 1 and "" not in meters and all(one.joules is not None for one in every):
        sums = {side: sum(one.joules or 0.0 for one in found) for side, found in answers.items()}
        if min(sums.values()) > 0.0:
            return _measured(meters.pop(), sums, decoded)
        reason = f"the counters of {meters.pop()} stand still"

    def work(side: str) -> tuple[Work, float]:
        total, drafts = Work(), 0.0
        for one in answers[side]:
            rounds = [(drafted, right) for drafted, right in one.rounds]
            total = total.with_more(decoding_work(one.prompt_tokens, rounds, window))
            drafts += sum(found.get("bytes_read", 0.0) for found in one.by_drafter.values())
        return total, drafts

    return _estimated(known, decoded, work, reason or "replies were measured by no meter, or by several")


def energies_of_report(
    report: DraftsReport, manifest: Manifest, gguf: Path | None, kv: KvType, probe: EnergyProbe
) -> Energies:
    """Return the joules a token of every side of a study of replies; within budgets too."""
    known = traffics(set(report.processes.values()), manifest, gguf, kv)
    by_side = {side: known[name] for side, name in report.processes.items() if name in known}
    answers = {side: report.answers(side) for side in report.sides}
    return energies_of_replies(answers, by_side, manifest.spec.window, probe.reason)


def energies_of_speed(
    report: SpeedReport, known: Mapping[str, Traffic], window: int, probe: EnergyProbe
) -> Energies:
    """Return the joules a token of plain decoding."""
    study = report.study
    steps = (study.max_tokens - 1) * study.repeat * len(study.prompts)
    decoded = dict.fromkeys(report.sides, steps)
    joules = [one for side in report.sides.values() for one in side.joules]
    if probe.meter and joules and None not in joules:
        sums = {name: sum(one or 0.0 for one in side.joules) for name, side in report.sides.items()}
        if min(sums.values()) > 0.0:
            return _measured(probe.source, sums, decoded)
    reason = probe.reason or f"{probe.source} was interrupted, or its counters stand still"
    return _estimated(known, decoded, lambda side: (_plain(report, window), 0.0), reason)


def roofs_of_speed(
    report: SpeedReport, known: Mapping[str, Traffic], window: int, bandwidth_gb_per_s: float
) -> dict[str, Roof]:
    """Return how near each side came to the bandwidth, by its median speed."""
    work, found = _plain(report, window), {}
    for name, traffic in known.items():
        rate = spread(report.sides[name].decode).median
        found[name] = Roof(traffic.bytes_read(work) / work.passes, rate, bandwidth_gb_per_s)
    return found


def _plain(report: SpeedReport, window: int) -> Work:
    """Return the passes of all prompts and rounds of a study of plain decoding."""
    total, study = Work(), report.study
    for prompt in study.prompts * study.repeat:
        rounds = [(0, 0)] * (study.max_tokens - 1)
        total = total.with_more(decoding_work(len(prompt), rounds, window))
    return total


def _measured(source: str, joules: Mapping[str, float], decoded: Mapping[str, int]) -> Energies:
    found = {
        side: TokenEnergy(source, False, used / decoded[side])
        for side, used in joules.items()
        if decoded[side] > 0
    }
    return Energies(found)


def _estimated(
    known: Mapping[str, Traffic],
    decoded: Mapping[str, int],
    work: Callable[[str], tuple[Work, float]],
    reason: str,
) -> Energies:
    found = {}
    for side, traffic in known.items():
        if decoded[side] > 0:
            passes, drafts = work(side)
            found[side] = TokenEnergy.estimated_of(traffic, passes, decoded[side], drafts)
    return Energies(found, reason)
