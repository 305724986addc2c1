"""The GPUs of this machine, and which of them return the CPU's bits."""

from __future__ import annotations

import os
from typing import Any

from edgedec.backends.gpu.adapter import CHOICE, Adapter, adapters, installed
from edgedec.backends.gpu.arithmetic import probe
from edgedec.backends.gpu.device import GpuDevice
from edgedec.core.errors import EdgeDecError


def survey(*, ask: bool = True) -> dict[str, Any]:
    """Return all adapters as plain JSON: ``installed``, and ``adapters`` with their ``arithmetic``.

    A software adapter is asked only where ``EDGEDEC_GPU`` names it: its kernels take seconds to compile.
    Without ``ask`` none is. A device that cannot be opened has a ``problem`` in place of its arithmetic.
    Raises BackendError where the adapters cannot be listed.
    """
    if not installed():
        return {"installed": False, "adapters": []}
    return {"installed": True, "adapters": [_described(one, ask=ask) for one in adapters()]}


def _described(one: Adapter, *, ask: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one.name, "api": one.api, "kind": one.kind, "driver": one.driver}
    wanted = os.environ.get(CHOICE, "").casefold()
    if not ask or (one.software and not (wanted and wanted in one.name.casefold())):
        return found
    try:
        device = GpuDevice.open(one)
        try:
            arithmetic = probe(device)
        finally:
            device.close()
    except EdgeDecError as error:
        return found | {"problem": str(error)}
    return found | {"exact": arithmetic.exact, "arithmetic": arithmetic.describe()}
