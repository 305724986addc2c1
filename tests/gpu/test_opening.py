"""A model placed on a GPU: memory that is refused before anything is loaded, and layers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from edgedec.backends.gpu.opening import place_on_gpu
from edgedec.backends.gpu.weights import GpuWeights
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import MemoryBudgetError
from tests.gpu.adapters import device


def place(bundle: Path, **chosen: int) -> dict[str, int]:
    found = place_on_gpu(
        bundle, Manifest.load(bundle), DevicePlace("gpu", context=64, **chosen), threads=1, device=device()
    )
    return found.device_bytes(CacheConfig(64))


def test_what_a_plan_says_is_enough_and_a_byte_less_is_not(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(place(bundle).values())
    assert sum(place(bundle, memory=needed).values()) == needed
    monkeypatch.setattr(GpuWeights, "load", lambda *given: pytest.fail("loaded"))
    with pytest.raises(MemoryBudgetError, match="of the GPU's memory") as found:
        place(bundle, memory=needed - 1)
    assert {one.name: one.value for one in found.value.remedies}["device_memory"] == needed


def test_fewer_layers_take_less_and_are_what_a_refusal_names(bundle: Path) -> None:
    whole, lower = (sum(parts.values()) for parts in (place(bundle), place(bundle, layers=1)))
    assert lower < whole
    with pytest.raises(MemoryBudgetError) as found:
        place(bundle, memory=lower)
    assert {one.name: one.value for one in found.value.remedies}["gpu_layers"] == 1
    assert sum(place(bundle, memory=lower, layers=1).values()) == lower


def test_a_cache_of_a_forward_keeps_within_the_memory(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    needed = sum(place(bundle).values())
    model = place_on_gpu(bundle, manifest, DevicePlace("gpu", needed, 64), threads=1, device=device())
    forward = model.forward(CacheConfig(64))
    with pytest.raises(MemoryBudgetError):
        model.forward(CacheConfig(64))
    forward.extend([1, 2, 3])
    assert forward.length == 3


@pytest.mark.parametrize("layers", [None, 1])
def test_memory_for_an_int8_cache_is_enough_for_that_alone(bundle: Path, layers: int | None) -> None:
    manifest, whole = Manifest.load(bundle), DevicePlace("gpu", context=64, kv="int8", layers=layers)
    open_on = partial(place_on_gpu, bundle, manifest, threads=1, device=device())
    parts = {kv: open_on(whole).device_bytes(CacheConfig(64, kv)) for kv in ("fp16", "int8")}
    assert parts["int8"] == parts["fp16"] | {"kv_cache": parts["int8"]["kv_cache"]}
    assert parts["int8"]["kv_cache"] < parts["fp16"]["kv_cache"]
    model = open_on(replace(whole, memory=sum(parts["int8"].values())))
    with pytest.raises(MemoryBudgetError):
        model.forward(CacheConfig(64, "fp16"))
    model.forward(CacheConfig(64, "int8")).extend([1, 2, 3])
