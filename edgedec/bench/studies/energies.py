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
from edgedec.bench.studies.faithful import WindowRead
from edgedec.bench.studies.speed import SpeedReport
from edgedec.core.manifest import GGUF, WEIGHTS, Manifest
from edgedec.memory import KvType
from edgedec.metrics.measures import traffic_of
from edgedec.metrics.roof import Roof
from edgedec.metrics.traffic import Traffic, Work, decoding_work

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

    def heading(self, unit: str = "mJ/token") -> str:
        """Return a line on the source of these figures."""
        sources = ", ".join(dict.fromkeys(one.source for one in self.by_side.values()))
        why = f"; {self.reason}" if self.reason else ""
        if not sources:
            return f"{unit}: neither measured nor estimated{why}"
        if not self.estimated:
            return f"{unit}: above idle power, measured by {sources}"
        if not all(one.estimated for one in self.by_side.values()):
            return f"{unit}: measurements and estimates (~), each by itself; {sources}{why}"
        return f"{unit}: an estimate with its bounds, not a measurement; {sources}{why}"


@dataclass(frozen=True, slots=True)
class Spent:
    """One request to a side, and the ``tokens`` that its joules are for.

    - ``work``, ``draft_bytes``: passes of the model, and bytes that drafters read, for an estimate.
    - ``joules``: energy above idle power, by the ``meter``; None where it was not measured.
    """

    tokens: int
    work: Work
    draft_bytes: float = 0.0
    joules: float | None = None
    meter: str = ""


def traffics(
    processes: Iterable[str], manifest: Manifest, gguf: Path | None, kv: KvType
) -> dict[str, Traffic]:
    """Return the traffic of each process that is known: EdgeDec's, and those that read the GGUF file."""
    weights = next((manifest.files[name].bytes for name in (WEIGHTS, GGUF) if name in manifest.files), 0)
    own = traffic_of(manifest.spec, weights, kv)
    found = {}
    for name in processes:
        if name.startswith("edgedec"):
            found[name] = own
        elif name in _GGUF_READERS and gguf is not None:
            found[name] = traffic_of(manifest.spec, gguf.stat().st_size, None)
    return found


def energies_of_requests(
    spent: Mapping[str, Sequence[Spent]], known: Mapping[str, Traffic], reason: str
) -> Energies:
    """Return the joules a token of the requests to each side: all measured by one meter, or all estimated.

    ``known`` has the traffic by side. ``reason``: why there is no meter; "" with one.
    """
    by_side = {side: [one for one in found if one.tokens > 0] for side, found in spent.items()}
    by_side = {side: found for side, found in by_side.items() if found}
    tokens = {side: sum(one.tokens for one in found) for side, found in by_side.items()}
    every = [one for found in by_side.values() for one in found]
    meters = {one.meter for one in every}
    if len(meters) == 1 and "" not in meters and all(one.joules is not None for one in every):
        sums = {side: sum(one.joules or 0.0 for one in found) for side, found in by_side.items()}
        if min(sums.values()) > 0.0:
            return _measured(meters.pop(), sums, tokens)
        reason = f"the counters of {meters.pop()} stand still"

    def work(side: str) -> tuple[Work, float]:
        total = Work()
        for one in by_side[side]:
            total = total.with_more(one.work)
        return total, sum(one.draft_bytes for one in by_side[side])

    counted = {side: traffic for side, traffic in known.items() if side in by_side and work(side)[0].passes}
    return _estimated(counted, tokens, work, reason or "some were measured by no meter, or by several")


def energies_of_replies(
    answers: Mapping[str, Sequence[SideAnswer]],
    known: Mapping[str, Traffic],
    window: int,
    reason: str,
    room: Mapping[str, int] | None = None,
) -> Energies:
    """Return the joules a token of replies; ``known`` has the traffic by side.

    ``room``: slots of the KV cache of a side that evicts tokens, by side.
    """
    slots = room or {}

    def spent(side: str, one: SideAnswer) -> Spent:
        rounds = [(drafted, right) for drafted, right in one.rounds]
        work = decoding_work(one.prompt_tokens, rounds, window, slots.get(side))
        drafts = sum(found.get("bytes_read", 0.0) for found in one.by_drafter.values())
        return Spent(one.decoded, work, drafts, one.joules, one.meter)

    requests = {side: [spent(side, one) for one in found] for side, found in answers.items()}
    return energies_of_requests(requests, known, reason)


def energies_of_windows(
    reads: Mapping[str, Sequence[WindowRead]], known: Mapping[str, Traffic], window: int, reason: str
) -> Energies:
    """Return the joules of each token that was read. ``window``: see ``Work.plus``."""

    def spent(one: WindowRead) -> Spent:
        work = Work()
        for tokens, slots in one.passes:
            work = work.plus(tokens, slots, window)
        return Spent(one.tokens, work, joules=one.joules, meter=one.meter)

    return energies_of_requests({side: [*map(spent, found)] for side, found in reads.items()}, known, reason)


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
