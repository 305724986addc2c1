"""The NEON row of the float ops, and the scalar row on Arm, in qemu: the bits of the scalar row on x86."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.kernels import (
    attention,
    float_rows,
    segments,
    test_encoder_ops,
    test_math,
    test_rms_norm,
    test_rotary_table,
    test_segments,
)
from tests.kernels.arm import ArmLibrary, needs_arm
from tests.kernels.float_rows import Array, call, same_bits
from tests.kernels.recurrent import Memory, RecurrentLayer
from tests.kernels.short_conv import ShortConvLayer
from tests.kernels.test_math import COMBINES, MAPS, all_exponents, half_neighbours
from tests.kernels.test_recurrent_passes import DELTAS
from tests.kernels.test_tree_attention import random_tree

pytestmark = needs_arm
Compare = Callable[[Callable[[str], Array]], None]


@pytest.fixture
def same_on_arm(monkeypatch: pytest.MonkeyPatch, arm_library: ArmLibrary) -> Compare:
    """Compares what a function of the row's name computes here with what it computes there."""

    def compare(compute: Callable[[str], Array]) -> None:
        expected = compute("scalar")
        with monkeypatch.context() as there:
            there.setattr(float_rows, "library_for", lambda row: arm_library)
            for row in ("neon", "scalar"):
                assert same_bits(compute(row), expected), row

    return compare


def map_of(function: str, x: Array) -> Callable[[str], Array]:
    return lambda row: test_math.apply(row, function, x)


@pytest.mark.parametrize("function", MAPS)
def test_functions(same_on_arm: Compare, function: str) -> None:
    x = all_exponents(1, 65_536)
    if function == "to_ints":
        x = x[np.abs(x) < 2.0**31]
    elif function == "exp":
        x = np.concatenate([x, np.linspace(-110, 95, 65_536, dtype=np.float32)])
    same_on_arm(map_of(function, x))
    for n in (0, 1, 3, 4, 15, 16, 17, 33):
        same_on_arm(map_of(function, x[20 : 20 + n]))


@pytest.mark.parametrize("function", COMBINES)
def test_combinations(same_on_arm: Compare, function: str) -> None:
    wild = np.stack([all_exponents(i, 32_768) for i in range(3)])
    near = np.random.default_rng(1).standard_normal((3, 32_768)).astype(np.float32)
    near[2] = -(near[0] * near[1])

    def combine(row: str) -> Array:
        out = np.empty((2, 32_768), np.float32)
        for x, y in zip((wild, near), out, strict=True):
            assert call("edgedec_math_combine", row, function.encode(), *x, y, 32_768) == 0
        return out

    same_on_arm(combine)


def test_equal_zeros_keep_the_sign_of_the_second(same_on_arm: Compare) -> None:
    zeros, other = np.float32([0.0, -0.0] * 8), np.float32([-0.0, 0.0] * 8)
    for function in (b"min", b"max"):

        def combine(row: str, function: bytes = function) -> Array:
            out = np.empty(16, np.float32)
            assert call("edgedec_math_combine", row, function, zeros, other, other, out, 16) == 0
            return out

        same_on_arm(combine)
        assert same_bits(combine("scalar"), other)


@pytest.mark.parametrize("function", ["reduce_add", "reduce_add_each", "reduce_max"])
def test_reductions(same_on_arm: Compare, function: str) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((64, 16)) * 10.0 ** rng.integers(-6, 6, (64, 16))).astype(np.float32)

    def reduce(row: str) -> Array:
        out = np.empty(64, np.float32)
        assert call("edgedec_math_map", row, function.encode(), x, out, x.size) == 0
        return out

    same_on_arm(reduce)


def test_halves(same_on_arm: Compare) -> None:
    halves, floats = (
        np.arange(65_536, dtype=np.uint16),
        np.append(half_neighbours(), all_exponents(3, 65_536)),
    )

    def widen(row: str) -> Array:
        out = np.empty(65_536, np.float32)
        assert call("edgedec_math_from_half", row, halves, out, 65_536) == 0
        return out

    def narrow(row: str) -> Array:
        out = np.empty(len(floats), np.uint16)
        assert call("edgedec_math_to_half", row, floats, out, len(floats)) == 0
        return out

    for compute in (widen, narrow):
        same_on_arm(compute)


def test_doubles(same_on_arm: Compare) -> None:
    rng = np.random.default_rng(4)
    positive, angles = np.exp(rng.uniform(-700, 700, 20_000)), rng.uniform(-1e6, 1e6, 20_000)

    def doubles(row: str) -> Array:
        out = np.empty((3, 20_000))
        assert call("edgedec_math_log", row, positive, out[0], 20_000) == 0
        assert call("edgedec_math_sincos", row, angles, out[1], out[2], 20_000) == 0
        return out

    same_on_arm(doubles)


@pytest.mark.parametrize("d", test_rms_norm.SIZES)
def test_rms_norm_and_rotary_table(same_on_arm: Compare, d: int) -> None:
    x, weight, residual = test_rms_norm.make(d, 4, d)
    same_on_arm(lambda row: test_rms_norm.norm(row, x, weight, residual))
    same_on_arm(lambda row: test_rms_norm.norm(row, x, weight, None))
    positions, frequencies = np.arange(0, 100_000, 777), test_rotary_table.frequencies(2 * d, 1e4)
    same_on_arm(lambda row: test_rotary_table.table(row, positions, frequencies))


@pytest.mark.parametrize("d", test_encoder_ops.SIZES)
def test_ops_of_encoders(same_on_arm: Compare, d: int) -> None:
    x, added, weight, bias = test_encoder_ops.make(d, 4, d)
    same_on_arm(lambda row: test_encoder_ops.norm(row, x, None, weight, None))
    same_on_arm(lambda row: test_encoder_ops.norm(row, x, added, weight, bias))
    for function in test_encoder_ops.FUNCTIONS:
        same_on_arm(partial(activated, function, x, added))
    for pooling in ("mean", "cls", "last"):
        same_on_arm(partial(pooled, pooling, x))


def activated(function: str, x: Array, factor: Array, row: str) -> Array:
    return test_encoder_ops.activate(row, function, x, factor)


def pooled(pooling: str, x: Array, row: str) -> Array:
    return test_encoder_ops.pool(row, pooling, x, 1, 4)


@pytest.mark.parametrize("seen", test_segments.SEEN)
@pytest.mark.parametrize("model", test_segments.MODELS, ids=str)
def test_attention_of_whole_texts(
    same_on_arm: Compare, model: attention.Model, seen: tuple[int, int]
) -> None:
    x, offsets = model.tokens(test_segments.OFFSETS[-1]), test_segments.OFFSETS
    same_on_arm(lambda row: segments.run(row, model, x, offsets, *seen))


MODEL = attention.Model()
MODELS = [
    MODEL,
    attention.Model(heads=14, kv_heads=2, dim=64, norms=True),
    attention.Model(heads=9, kv_heads=3, dim=64, interleaved=True),
    attention.Model(heads=4, kv_heads=1, dim=256, window=20, norms=True),
    attention.Model(heads=5, kv_heads=5, dim=80, window=7),
    attention.Model(heads=2, kv_heads=1, dim=512, norms=True, value_norm=True),
    attention.Model(heads=14, kv_heads=2, dim=64, norms=True, int8=True),
    attention.Model(heads=4, kv_heads=1, dim=256, window=20, int8=True),
    attention.Model(heads=4, kv_heads=1, dim=64, window=20, ring=True),
    attention.Model(heads=4, kv_heads=1, dim=64, window=20, ring=True, int8=True),
    attention.Model(heads=16, kv_heads=2, dim=64, window=20, ring=True, int8=True, sinks=True),
    attention.Model(heads=56, kv_heads=1, dim=32, sinks=True),
]
RECURRENT: list[RecurrentLayer] = [DELTAS[0], DELTAS[2], ShortConvLayer(hidden=272)]


def attend(
    model: attention.Model, x: Array, parents: list[int], cache: Array, length: int, row: str
) -> Array:
    """Outputs, then what was written into the cache, which stays as it is, and what attention fell on."""
    written, looked = cache.copy(), None if model.ring else np.zeros(cache.shape[1:3], np.float32)
    out = attention.run(row, model, x, parents, written, length, None, looked)
    rows = attention.bits(written[:, :, length : length + len(x)]).astype(np.float32)
    parts = [out, rows] if looked is None else [out, rows, looked]
    return np.concatenate([part.ravel() for part in parts])


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_tree_attention(same_on_arm: Compare, model: attention.Model) -> None:
    for tokens, length in ((1, 0), (1, 37), (2, 1), (5, 16), (16, 50), (40, 130)):
        parents = random_tree(tokens, tokens)
        x, cache = model.tokens(tokens), model.cache(length, length + tokens + 2)
        if model.ring:
            cache = model.cache(model.window - 1 + tokens, model.window - 1 + tokens)

        same_on_arm(partial(attend, model, x, parents, cache, length))


@pytest.mark.parametrize("cpu", ["cortex-a76", "cortex-a53"])
def test_attention_in_bytes_on_older_cpus(monkeypatch: pytest.MonkeyPatch, cpu: str) -> None:
    """The first multiplies bytes by dot products alone, the second has not even these."""
    model = replace(MODEL, heads=14, kv_heads=2, dim=64, norms=True, int8=True)
    parents, x, cache = random_tree(9, 9), model.tokens(9), model.cache(130, 141)
    expected = attend(model, x, parents, cache, 130, "scalar")
    with ArmLibrary(cpu) as older:
        monkeypatch.setattr(float_rows, "library_for", lambda row: older)
        for row in ("neon", "scalar"):
            assert same_bits(attend(model, x, parents, cache, 130, row), expected), row


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_tree_attention_of_many_shapes(same_on_arm: Compare, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kv_heads, tokens, length = (int(rng.integers(1, most)) for most in (4, 64, 700))
    heads, dim = kv_heads * int(rng.integers(1, 9)), 16 * int(rng.integers(1, 9))
    window, flags = int(rng.choice([0, 1, 33])), rng.integers(0, 2, 3).astype(bool)
    model = replace(MODEL, heads=heads, kv_heads=kv_heads, dim=dim, window=window, seed=seed)
    model = replace(model, interleaved=bool(flags[0]), norms=bool(flags[1]), int8=bool(flags[2]))
    parents, x = random_tree(seed, tokens), model.tokens(tokens)
    same_on_arm(partial(attend, model, x, parents, model.cache(length, length + tokens), length))


@pytest.mark.parametrize("layer", RECURRENT, ids=str)
def test_recurrent_ops(same_on_arm: Compare, layer: RecurrentLayer) -> None:
    text = layer.tokens(60)

    def passes(row: str) -> Array:
        memory = Memory(layer)
        outs = [
            memory.run(row, text[:40]),
            memory.run(row, text[40:41]),
            memory.run(row, text[41:], random_tree(1, 19)),
        ]
        return np.concatenate([part.ravel() for part in (*outs, memory.state, memory.trail)])

    same_on_arm(passes)
