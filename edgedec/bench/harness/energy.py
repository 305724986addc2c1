"""Energy of every study: one meter for all sides, read from outside of their processes, or an estimate.

A side says how long it decoded; the joules of that time are cut out of readings that a thread makes while the
side works. So the prompt is left out, and all sides are measured by the same source. Without a meter there
is an estimate, from the bytes and operations of each side's passes.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.bench.harness.pairing import rounded, rounded_or_none
from edgedec.bench.harness.runtimes import NATIVE
from edgedec.bundle.manifest import GGUF, WEIGHTS, Manifest
from edgedec.core.quick_dataclass import dataclass
from edgedec.memory import KvType
from edgedec.metrics.measures import traffic_of
from edgedec.metrics.traffic import Traffic, Work, decoding_work
from edgedec.telemetry.energy import Meter, NoMeter, Reading, estimate, open_meter
from edgedec.telemetry.energy.estimate import MODEL
from edgedec.telemetry.energy.idle import measure_idle

if TYPE_CHECKING:
    from edgedec.bench.harness.journal import SideAnswer

_EVERY_S = 0.02
_GGUF_READERS = ("llama.cpp", "llama.cpp as mapped")
"""Sides that read the bytes of the GGUF file itself; what others make of it is not known here."""


@dataclass
class MeterWatch:
    """Readings while a side worked; joules above ``idle_w``."""

    idle_w: float = 0.0
    readings: list[Reading] = field(default_factory=list)

    def last(self, seconds: float) -> float | None:
        """Return the joules of the last ``seconds`` of the work; None where that was not measured."""
        if len(self.readings) < 2:
            return None
        end = self.readings[-1]
        start_s = max(end.at_s - seconds, self.readings[0].at_s)
        place = max(bisect_left([one.at_s for one in self.readings], start_s), 1)
        before, after = self.readings[place - 1], self.readings[place]
        if before.interruptions != end.interruptions or after.at_s <= before.at_s:
            return None
        part = (start_s - before.at_s) / (after.at_s - before.at_s)
        start = before.joules + part * (after.joules - before.joules)
        return end.joules - start - self.idle_w * (end.at_s - start_s)


class EnergyProbe:
    """The meter of a study. ``source`` names it, or the model of the estimate; ``reason``: why that."""

    def __init__(
        self, meter: Meter | NoMeter | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Measures the idle power first, where there is a meter. ``meter`` None: open this machine's."""
        found = open_meter() if meter is None else meter
        self._meter = None if isinstance(found, NoMeter) else found
        self.reason = found.reason if isinstance(found, NoMeter) else ""
        self.source = MODEL if isinstance(found, NoMeter) else found.source
        self._clock = clock
        idle = measure_idle(self._meter) if self._meter else None
        self.idle_w = idle.watts if idle else None

    @property
    def meter(self) -> str:
        """The name of the meter; "" without one."""
        return self.source if self._meter else ""

    @contextmanager
    def watch(self) -> Iterator[MeterWatch]:
        """Read the meter while the block runs."""
        watch = MeterWatch(self.idle_w or 0.0)
        if self._meter is None:
            yield watch
            return
        done = threading.Event()
        thread = threading.Thread(target=self._read_until, args=(done, watch, self._meter), daemon=True)
        self._read(watch, self._meter)
        thread.start()
        try:
            yield watch
        finally:
            done.set()
            thread.join()
            self._read(watch, self._meter)

    def _read_until(self, done: threading.Event, watch: MeterWatch, meter: Meter) -> None:
        while not done.wait(max(_EVERY_S, meter.least_s)):
            self._read(watch, meter)

    def _read(self, watch: MeterWatch, meter: Meter) -> None:
        if reading := Reading.of(meter, self._clock):
            watch.readings.append(reading)


@dataclass(frozen=True, slots=True)
class TokenEnergy:
    """Joules a token of decoding, the prompt left out; ``low`` and ``high`` bound an estimate."""

    source: str
    estimated: bool
    joules: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def estimated_of(cls, traffic: Traffic, work: Work, tokens: int, draft_bytes: float = 0.0) -> TokenEnergy:
        """Estimate it for passes that made ``tokens``, and drafters that read ``draft_bytes``."""
        operations = traffic.operations(work) + traffic.operations_of(draft_bytes)
        found = estimate(traffic.bytes_read(work) + draft_bytes, operations)
        return cls(MODEL, True, found.joules / tokens, found.low / tokens, found.high / tokens)

    def as_json(self) -> dict[str, Any]:
        bounds = {"low": rounded_or_none(self.low), "high": rounded_or_none(self.high)}
        joules = {"joules_per_token": rounded(self.joules)}
        return {"source": self.source, "estimated": self.estimated, **joules, **bounds}

    def words(self) -> str:
        """Return it in mJ; an estimate begins with "about" and ends with its bounds."""
        if not self.estimated:
            return f"{1e3 * self.joules:.1f}"
        return f"~{1e3 * self.joules:.1f} ({1e3 * (self.low or 0.0):.1f}-{1e3 * (self.high or 0.0):.1f})"


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
        if name.startswith(("edgedec", NATIVE)):
            found[name] = own
        elif name in _GGUF_READERS and gguf is not None:
            found[name] = traffic_of(manifest.spec, gguf.stat().st_size, None)
    return found


def energies_of(spent: Mapping[str, Sequence[Spent]], known: Mapping[str, Traffic], reason: str) -> Energies:
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
            source = meters.pop()
            return Energies({side: TokenEnergy(source, False, sums[side] / tokens[side]) for side in sums})
        reason = f"the counters of {meters.pop()} stand still"
    found = {}
    for side, traffic in known.items():
        work, drafts = Work(), 0.0
        for one in by_side.get(side, ()):
            work, drafts = work.with_more(one.work), drafts + one.draft_bytes
        if work.passes:
            found[side] = TokenEnergy.estimated_of(traffic, work, tokens[side], drafts)
    return Energies(found, reason or "some were measured by no meter, or by several")


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
    return energies_of(requests, known, reason)
