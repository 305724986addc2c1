"""Keys of different sizes in one cache: its arrays, its bytes, and files of it."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from edgedec.backends.checks import check_kept
from edgedec.backends.fake import tiny_spec
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.core.cache_kinds import Keys
from edgedec.core.model_spec import ModelSpec
from edgedec.memory import KvType, kv_bytes, ring_keys, ring_slots, slot_bytes, whole_keys
from edgedec.memory.footprint import cache_bytes
from edgedec.metrics.measures import traffic_of

WHOLE, RINGS = Keys("kv_cache", 2, 1, 64), Keys("kv_window", 3, 2, 32, 8)
KINDS = (WHOLE, RINGS)
CAPACITY, RING = 400, 280
LAYERS = 9
"""Layers of the model; four of them share the keys of others."""


def spec_of(*kinds: Keys) -> ModelSpec:
    plain = replace(tiny_spec(24, 1000), n_layers=LAYERS, n_heads=4, n_kv_heads=2, head_dim=32)
    return replace(plain, caches=kinds, n_window_layers=6, window=8)


@pytest.mark.parametrize(("kv", "named", "rows"), [("fp16", "fp16", (64, 32)), ("int8", "int8.2", (34, 17))])
def test_each_kind_has_its_own_shape(kv: KvType, named: str, rows: tuple[int, int]) -> None:
    memory = KvMemory(spec_of(*KINDS), CAPACITY, kv, RING)
    assert {name: array.shape for name, array in memory.arrays.items()} == {
        "kv_cache": (2, 2, 1, CAPACITY, rows[0]),
        "kv_window": (3, 2, 2, RING, rows[1]),
    }
    assert memory.reserved == kv_bytes(spec_of(*KINDS), CAPACITY, kv, RING)
    assert memory.layout == f"{named} 2x2x1x{2 * rows[0]} 3x2x2x{2 * rows[1]}x264"


def test_the_order_of_kinds_does_not_matter() -> None:
    there, back = spec_of(*KINDS), spec_of(*reversed(KINDS))
    for spec in (there, back):
        assert (whole_keys(spec), ring_keys(spec)) == KINDS
    assert kv_bytes(there, CAPACITY) == kv_bytes(back, CAPACITY)


def test_a_file_of_both_kinds_is_read_back() -> None:
    spec, rng = spec_of(*KINDS), np.random.default_rng(1)
    first, second = (KvMemory(spec, CAPACITY, "fp16", RING) for _ in range(2))
    for array in first.arrays.values():
        array[:] = rng.standard_normal(array.shape)
    slots, file = 300, io.BytesIO()
    first.write(file, slots, 60)
    assert len(file.getvalue()) == first.nbytes(slots)
    file.seek(0)
    assert second.read(file, slots) == 60
    assert (second.arrays["kv_cache"][:, :, :, :slots] == first.arrays["kv_cache"][:, :, :, :slots]).all()
    held = [slot % RING for slot in range(60, slots)]
    same = second.arrays["kv_window"][:, :, :, held] == first.arrays["kv_window"][:, :, :, held]
    assert same.all()


def test_plans_count_the_layers_that_own_keys() -> None:
    spec = spec_of(*KINDS)
    ring = ring_slots(spec, 1000, 16)
    assert ring >= 8 + 256 + 16
    assert cache_bytes(spec, 1000, "fp16", 16) >= kv_bytes(spec, 1000, "fp16", ring)
    assert slot_bytes(WHOLE) == 2 * 2 * 64 * 2
    assert ring_slots(spec_of(WHOLE), 1000, 16) == 0


def test_layers_that_share_keys_read_them() -> None:
    traffic = traffic_of(spec_of(*KINDS), 1000, "fp16")
    assert traffic.slot_bytes == 3 * 2 * 1 * 64 * 2
    assert traffic.window_slot_bytes == 6 * 2 * 2 * 32 * 2


def test_slots_are_kept_by_the_heads_of_layers_that_own_keys() -> None:
    check_kept(spec_of(WHOLE), 0, 4, np.zeros((2, 1, 1), np.intp))
    with pytest.raises(ValueError, match="for 2 layers of 1 heads"):
        check_kept(spec_of(WHOLE), 0, 4, np.zeros((LAYERS, 2, 1), np.intp))
