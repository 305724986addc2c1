"""Adapters for tests, and devices over the one that is there."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from edgedec.backends.gpu.adapter import Adapter, adapters, installed
from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.model import GpuModel
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import EdgeDecError
from tests.fixtures.nightly import every

BROWSERS_DRIVER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
"""A second software adapter, which comes with a browser."""


@cache
def found() -> tuple[Adapter, ...]:
    """All adapters of this machine that Vulkan, Metal or D3D12 reach; the slow one comes last."""
    if not installed():
        return ()
    # Drivers keep files there, and some warn where it is missing.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp())
    if BROWSERS_DRIVER.exists():
        os.environ.setdefault("VK_ADD_DRIVER_FILES", str(BROWSERS_DRIVER))
    try:
        kept = [one for one in adapters() if one.api != "OpenGL"]
    except EdgeDecError:
        return ()
    return tuple(sorted(kept, key=lambda one: "SwiftShader" in one.name))


def each() -> list[Any]:
    """All adapters, as parameters; those beside the first one are slow."""
    return every(max(1, len(found())), found())


def adapter() -> Adapter:
    """Return an adapter, a software one too; skip the test where there is none."""
    if not found():
        pytest.skip("no adapter of WebGPU on this machine")
    return found()[0]


@cache
def opened(one: Adapter) -> GpuDevice:
    """Return the adapter as an open device, the same one for all tests."""
    return GpuDevice.open(one)


def device() -> GpuDevice:
    """Return an open device, the same one for all tests; skip the test where there is none."""
    return opened(adapter())


@cache
def gpu_model(bundle: Path) -> GpuModel:
    """Load a bundle on the open device, once."""
    return GpuModel(bundle, Manifest.load(bundle), threads=1, device=device())


@cache
def drafting_model(bundle: Path) -> GpuModel:
    """Load a bundle on the open device, once, so that it can draft with its own layers."""
    return GpuModel(bundle, Manifest.load(bundle), threads=1, device=device(), drafting=True)
