"""The energy counters of NVIDIA's GPUs (Volta and later), through nvidia-ml-py.

They count nothing but the GPUs. EdgeDec computes on the processor, so they are read on request only: for a
runtime beside it that computes there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from edgedec.disk.installing import pip_install
from edgedec.telemetry.energy.meter import Counter, Refused, SleepWatch

_JOULES_EACH = 1e-3


class NvidiaMeter:
    """All GPUs. Raises Refused without nvidia-ml-py, a driver, or GPUs that count energy."""

    least_s = 0.2
    """The driver writes the counters some ten times a second."""

    def __init__(self, nvml: Any = None, asleep: Callable[[], float] | None = None) -> None:
        self._nvml = nvml or _library()
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            handles = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        except self._nvml.NVMLError as error:
            raise Refused(f"NVIDIA: the driver does not answer ({error})") from error
        if not handles:
            raise Refused("NVIDIA: there is no GPU")
        self._counters = {
            f"gpu-{index}": Counter(partial(self._count, handle), _JOULES_EACH)
            for index, handle in enumerate(handles)
        }
        self._watch = SleepWatch(asleep)
        self.interruptions = 0
        self.source = f"NVIDIA ({', '.join(self._counters)}; nothing but the GPUs)"

    def read(self) -> dict[str, float]:
        """See ``Meter.read``."""
        slept = self._watch.slept()
        self.interruptions += slept
        return {name: counter.advance(slept=slept) for name, counter in self._counters.items()}

    def watts(self) -> float | None:
        """None: the counters tell energy."""
        return None

    def _count(self, handle: Any) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        except self._nvml.NVMLError as error:
            raise Refused(f"NVIDIA: the GPU does not count energy ({error})") from error


def _library() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise Refused(f"NVIDIA: no nvidia-ml-py; {pip_install('nvidia')}") from error
