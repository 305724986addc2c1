"""TreeAttention in WGSL has the bits of the scalar row: trees, windows, groups of heads, every storage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from tests.gpu import attention, cases
from tests.kernels.attention import Model
from tests.kernels.test_tree_attention import random_tree

# Shapes of heads, each with its own norms, rotation, window and softcap.
MODELS = [
    Model(heads=9, kv_heads=3, dim=64, interleaved=True),
    Model(heads=4, kv_heads=1, dim=256, norms=True, window=20),
    Model(heads=12, kv_heads=2, dim=128),
    Model(heads=5, kv_heads=5, dim=16, softcap=1.5, window=33),
    Model(heads=24, kv_heads=2, dim=80, norms=True, softcap=20.0),
    Model(heads=2, kv_heads=2, dim=112, window=1, interleaved=True),
    Model(heads=8, kv_heads=1, dim=32, window=70),
    Model(heads=3, kv_heads=1, dim=48, norms=True, interleaved=True),
    Model(heads=7, kv_heads=1, dim=64, sinks=True, window=50),
    Model(heads=4, kv_heads=1, dim=512, softcap=30.0, sinks=True),
]


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("model", MODELS[:4], ids=lambda one: f"{one.heads}-{one.kv_heads}-{one.dim}")
def test_has_the_bits_of_the_scalar_row(model: Model, int8: bool, device: GpuDevice) -> None:
    attention.check(device, replace(model, seed=1, int8=int8), random_tree(model.dim, 6), 41, 70)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_values_have_a_norm_and_layers_share_keys(shared: bool, int8: bool, device: GpuDevice) -> None:
    model = Model(heads=6, kv_heads=2, dim=48, window=20, norms=True, int8=int8)
    varied = replace(model, value_norm=not shared, shared=shared)
    attention.check(device, varied, random_tree(3, 9), 33, 50)


def test_begins_with_an_empty_cache(device: GpuDevice) -> None:
    attention.check(device, MODELS[0], [-1], 0, 4)


@pytest.mark.parametrize(
    ("model", "held"),
    [
        (Model(heads=1, kv_heads=1, dim=16), 1536),
        (Model(heads=7, kv_heads=1, dim=32, sinks=True), 384),
        (Model(heads=1, kv_heads=1, dim=16, int8=True), 1024),
        (Model(heads=7, kv_heads=1, dim=64, sinks=True, window=600, int8=True), 256),
    ],
)
def test_more_keys_than_a_workgroup_holds(model: Model, held: int, device: GpuDevice) -> None:
    """Scores of later keys are computed again: one key more than is held, and more than twice as many."""
    for length in (held, 2 * held + 21):
        attention.check(device, model, [-1, 0, 0], length, length + 3)


@pytest.mark.parametrize("window", [0, 64, 90])
def test_int8_weights_are_rounded_in_blocks_of_the_path(window: int, device: GpuDevice) -> None:
    """Blocks begin at multiples of 64, wherever a window does; the last one is one key or whole."""
    model = Model(heads=5, kv_heads=1, dim=80, window=window, softcap=30.0 if window else 0.0, int8=True)
    for length in (62, 63, 64, 127, 130, 200):
        attention.check(device, model, [-1, 0, 0, 2, -1], length, 210)


def test_a_lost_value_shows_in_its_group_where_it_is_seen(device: GpuDevice) -> None:
    """A value that int8 cannot hold: out of the window of later tokens, and below others in a tree."""
    model = Model(heads=3, kv_heads=1, dim=128, window=3, int8=True)
    tokens = model.tokens(8)
    tokens[1, 4 * 128 + 70] = 1e9
    attention.check(device, model, [-1, 0, 0, 2, 1, 4, 5, 6], 65, 80, tokens)


@pytest.mark.parametrize("int8", [False, True])
def test_what_is_no_number_shows_in_the_results(int8: bool, device: GpuDevice) -> None:
    model = Model(heads=2, kv_heads=1, dim=16, int8=int8)
    tokens = model.tokens(3)
    tokens[1, 3], tokens[2, 2 * 16 + 5] = np.nan, np.inf
    attention.check(device, model, [-1, 0, 0], 5, 10, tokens)


def test_int8_rows_of_any_amplitude(device: GpuDevice) -> None:
    model, rng = Model(heads=1, kv_heads=1, dim=80, int8=True), np.random.default_rng(0)
    tokens = model.tokens(40)
    tokens *= np.exp2(rng.uniform(-30, 20, (40, 1))).astype(np.float32)
    tokens[:4] *= np.float32([0, 1e-30, 1e-12, 1e30])[:, None]
    tokens[4, 160:] *= np.float32(1e-44)  # values alone: products of such small numbers may be zeros on a GPU
    for token, value in enumerate((2.0**-24, 127 * 2.0**-24, 65504.0, 127 * 65504.0, 127 * 65510.0)):
        tokens[5 + token, [90, 170]] = value
    attention.check(device, model, [-1] * 40, 0, 40, tokens)


@pytest.mark.parametrize("length", [0, 3])
def test_keeps_a_path(length: int, device: GpuDevice) -> None:
    """Slots move within a cache of 3 layers, rows of 5 words."""
    kept, rng = np.array([0, 2, 3, 6], np.uint32), np.random.default_rng(0)
    planes, capacity, words = 3 * 2 * 2, 12, 5
    before = rng.integers(0, 1 << 32, (planes, capacity, words), dtype=np.uint32)
    after = before.copy()
    after[:, length : length + len(kept)] = before[:, length + kept]
    case = cases.KernelCase(
        "tree_attention/copy_rows",
        {"PLANES": planes, "CAPACITY": capacity, "ROW_WORDS": words},
        (kept, before),
        {2: after},
        (-(-planes * words // 64), 1, 1),
        {"tokens": len(kept), "length": length},
    )
    assert not list(cases.differences(device, [case]))


@pytest.mark.slow
@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=lambda one: f"{one.heads}-{one.kv_heads}-{one.dim}")
def test_thousands_of_heads_have_the_bits_of_the_scalar_row(
    model: Model, int8: bool, device: GpuDevice
) -> None:
    """A case is one head of one token; at least 1,250 for each of the shapes and both storages.

    Queries are not so large that weights fall below 2^-126, which some devices make zero.
    """
    rng, done, seed = np.random.default_rng(model.dim), 0, 0
    while done < 1250:
        count, seed = int(rng.integers(1, 24)), seed + 1
        length = int(rng.choice([0, 1, 15, 64, rng.integers(2, 200)]))
        varied = replace(model, seed=seed, int8=int8)
        tokens = varied.tokens(count) * np.exp2(rng.uniform(-4, 2, (count, 1))).astype(np.float32)
        attention.check(device, varied, random_tree(seed, count), length, 230, tokens)
        done += count * model.heads
    print(f"{done} cases of {model} on {device.adapter.name}")
