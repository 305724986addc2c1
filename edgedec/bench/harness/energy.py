"""One energy meter for all sides of a study, read from outside of their processes.

A side says how long it decoded; the joules of that time are cut out of readings that a thread makes while the
side works. So the prompt is left out, and all sides are measured by the same source. Without a meter there
is an estimate, from the bytes and operations of each side's passes.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from edgedec.bench.harness.pairing import rounded, rounded_or_none
from edgedec.metrics.traffic import Traffic, Work
from edgedec.telemetry.energy import Meter, NoMeter, Reading, estimate, open_meter
from edgedec.telemetry.energy.estimate import MODEL
from edgedec.telemetry.energy.idle import measure_idle

_EVERY_S = 0.02


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
