"""The protocol of energy meters, and their readings.

No library serves here:

- zeus (Apache-2.0) requires pandas, scikit-learn, amdsmi and seven others, to read some files of numbers.
- codecarbon (MIT) requires sixteen packages, and puts constants in the place of counters it cannot read.
- pyRAPL (MIT) was last released in 2019.

None of them knows a machine that was suspended between two readings.
The counters of NVIDIA's driver are read through NVIDIA's own library.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from edgedec.core.quick_dataclass import dataclass
from edgedec.system.process import asleep_s


class Refused(Exception):  # noqa: N818 - another meter may do
    """This machine cannot be measured so; the message says why, and what would help, in one line."""


class Meter(Protocol):
    """Counts joules from when it was opened."""

    @property
    def source(self) -> str:
        """Its name and what it covers, such as "RAPL (package-0, dram-0)"."""
        ...

    @property
    def least_s(self) -> float:
        """Seconds between two readings below which their difference says nothing."""
        ...

    @property
    def interruptions(self) -> int:
        """Times that counting broke off so far: the machine was suspended, or a charger was plugged in.

        The difference of two readings around one is no measurement.
        """
        ...

    def read(self) -> dict[str, float]:
        """Return the joules of each domain since the meter was opened. They never fall.

        Raises Refused when a counter can no longer be read.
        """
        ...

    def watts(self) -> float | None:
        """Return the power at this moment where the system tells it; None: only ``read`` does."""
        ...


@dataclass(frozen=True, slots=True)
class NoMeter:
    """There is no meter here; ``reason`` has a line for each that was tried."""

    refused: tuple[str, ...]

    @property
    def reason(self) -> str:
        return "; ".join(self.refused)


@dataclass(frozen=True, slots=True)
class Reading:
    """All joules of a meter at a moment, in seconds of a clock that stands while the machine sleeps."""

    at_s: float
    joules: float
    interruptions: int = 0

    @classmethod
    def of(cls, meter: Meter, clock: Callable[[], float] = time.monotonic) -> Reading | None:
        """Read ``meter`` now; None when it can no longer be read."""
        try:
            joules = sum(meter.read().values())
        except Refused:
            return None
        return cls(clock(), joules, meter.interruptions)


@dataclass(slots=True)
class Counter:
    """A hardware counter that starts again at ``range`` (0: unknown), as joules that never fall.

    ``read`` returns units of ``joules_each``.
    """

    read: Callable[[], int]
    joules_each: float
    range: int = 0
    joules: float = 0.0
    _last: int = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.read()

    def advance(self, *, slept: bool) -> float:
        """Read it; return all joules so far.

        ``slept``: the machine was suspended since the last reading. A smaller number then means that the
        counter was reset, not that it went round.
        """
        now = self.read()
        more = now - self._last
        if more < 0:
            more = more + self.range if self.range >= self._last and not slept else 0
        self._last = now
        self.joules += max(more, 0) * self.joules_each
        return self.joules


class SleepWatch:
    """Notices that the machine was suspended: the clock that counts this gains on the one that does not."""

    _LEAST_S = 0.5

    def __init__(self, asleep: Callable[[], float] | None = None) -> None:
        """``asleep`` returns the seconds that the machine has slept since it started."""
        self._asleep = asleep or asleep_s
        self._seen = self._asleep()

    def slept(self) -> bool:
        """Return whether the machine was suspended since the last call."""
        before, self._seen = self._seen, self._asleep()
        return self._seen - before > self._LEAST_S
