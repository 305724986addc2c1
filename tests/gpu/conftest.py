"""One device for all models that tests open."""

from __future__ import annotations

import pytest

from edgedec.backends.gpu import opening
from edgedec.backends.gpu.adapter import Adapter
from edgedec.backends.gpu.device import GpuDevice
from tests.gpu import adapters

_OPEN: dict[str, GpuDevice] = {}
"""By the adapter's name."""


class Shared:
    """Opens the device of a test before, unless that one was lost.

    Mesa's driver keeps the code of every pipeline until the process ends, about 100 MB for each model.
    """

    @staticmethod
    def open(adapter: Adapter) -> GpuDevice:
        """See ``GpuDevice.open``."""
        device = _OPEN.get(adapter.name)
        if device is None or device.lost:
            device = _OPEN[adapter.name] = GpuDevice.open(adapter)
        return device


@pytest.fixture(autouse=True)
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models share a device."""
    monkeypatch.setattr(opening, "GpuDevice", Shared)


@pytest.fixture(params=adapters.each(), ids=lambda one: one.name.split()[0])
def device(request: pytest.FixtureRequest) -> GpuDevice:
    """An open device, for kernels alone."""
    return adapters.opened(request.param)
