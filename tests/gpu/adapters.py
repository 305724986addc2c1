"""Adapters for tests, and devices over the one that is there."""

from __future__ import annotations

import os
import tempfile
from functools import cache

import pytest

from edgedec.backends.gpu.adapter import Adapter, adapters, installed
from edgedec.backends.gpu.device import GpuDevice
from edgedec.core.errors import EdgeDecError


@cache
def found() -> tuple[Adapter, ...]:
    """All adapters of this machine that Vulkan, Metal or D3D12 reach."""
    if not installed():
        return ()
    # Drivers keep files there, and some warn where it is missing.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp())
    try:
        return tuple(one for one in adapters() if one.api != "OpenGL")
    except EdgeDecError:
        return ()


def adapter() -> Adapter:
    """Return an adapter, a software one too; skip the test where there is none."""
    if not found():
        pytest.skip("no adapter of WebGPU on this machine")
    return found()[0]


@cache
def _opened(one: Adapter) -> GpuDevice:
    return GpuDevice.open(one)


def device() -> GpuDevice:
    """Return an open device, the same one for all tests; skip the test where there is none."""
    return _opened(adapter())
