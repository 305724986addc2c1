"""The power of a Mac's processor, as the command ``powermetrics`` writes it several times a second.

A sample begins with its length. On Apple's processors it has the power of CPU, GPU and neural engine
together, on Intel's that of the package.
"""

from __future__ import annotations

import re
import subprocess
import threading
import weakref
from collections.abc import Callable, Sequence

from edgedec.system.power import SAMPLER, samples
from edgedec.telemetry.energy.meter import Refused, SleepWatch

_LENGTH = re.compile(r"\*\*\* Sampled system activity .*\(([\d.]+)ms elapsed\)")
_POWER = re.compile(
    r"(?:Combined Power \(CPU \+ GPU \+ ANE\)|Intel energy model derived package power \(CPUs\+GT\+SA\)): "
    r"([\d.]+) ?(m?)W"
)
_PATIENCE_S = 5.0
_CLOSED = "powermetrics: macOS lets only root run it; `sudo` before the command measures"


class PowermetricsMeter:
    """The processor of a Mac. Raises Refused where the command is missing, may not run, or tells no power."""

    least_s = 1.0

    def __init__(
        self,
        command: Sequence[str] = SAMPLER,
        allowed: Callable[[], bool | None] = samples,
        asleep: Callable[[], float] | None = None,
    ) -> None:
        if not allowed():
            raise Refused(_CLOSED)
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=nowhere, stdout=pipe, stderr=nowhere, text=True)
        except OSError as error:
            raise Refused(f"powermetrics: it cannot be run ({error.strerror})") from error
        weakref.finalize(self, _end, self._process)
        self._told, self._joules, self._watts = threading.Event(), 0.0, 0.0
        threading.Thread(target=_follow, args=(weakref.ref(self), self._process), daemon=True).start()
        if not self._told.wait(_PATIENCE_S) or self._process.poll() is not None:
            _end(self._process)
            raise Refused("powermetrics: it tells no power of this processor")
        self._watch = SleepWatch(asleep)
        self.interruptions = 0
        self.source = "powermetrics (processor, GPU and neural engine; memory is not counted)"

    def read(self) -> dict[str, float]:
        """See ``Meter.read``."""
        if self._process.poll() is not None:
            raise Refused("powermetrics: it has ended")
        self.interruptions += self._watch.slept()
        return {"processor": self._joules}

    def watts(self) -> float | None:
        """Return the power of the newest sample."""
        return self._watts

    def add(self, watts: float, seconds: float) -> None:
        """Count a sample."""
        self._watts = watts
        self._joules += watts * seconds if self._told.is_set() else 0.0  # the first is of the time before
        self._told.set()


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def _follow(meter: weakref.ref[PowermetricsMeter], process: subprocess.Popen[str]) -> None:
    """Count samples until the process ends, or nobody asks any more."""
    assert process.stdout is not None
    seconds = 0.0
    with process.stdout:
        for line in process.stdout:
            if found := _LENGTH.search(line):
                seconds = float(found[1]) / 1e3
            elif (found := _POWER.search(line)) and (one := meter()) is not None:
                one.add(float(found[1]) * (1e-3 if found[2] else 1.0), seconds)
                del one
