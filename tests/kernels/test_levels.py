"""Levels of optimisation change no bit: a library of another one computes what the installed one does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from edgedec.kernels import library
from tests.kernels import attention, float_rows, test_math, test_rms_norm, test_rotary_table
from tests.kernels.float_rows import Array, call, same_bits
from tests.kernels.levels import build, needs_cmake, needs_compiler, scalar_rows
from tests.kernels.quant_rows import FORMATS, SCALAR, Runner, random_packed
from tests.kernels.recurrent import Memory
from tests.kernels.test_math import COMBINES, MAPS, all_exponents
from tests.kernels.test_quant_linear import inputs, shapes
from tests.kernels.test_recurrent_passes import DELTAS
from tests.kernels.test_tree_attention import random_tree

Compare = Callable[[Callable[[str], Array]], None]


def comparing(monkeypatch: pytest.MonkeyPatch, path: Path) -> Compare:
    """Compare what the scalar row computes in the installed library and in the one at ``path``."""
    other = ctypes.CDLL(str(path))

    def compare(compute: Callable[[str], Array]) -> None:
        expected = compute("scalar")
        with monkeypatch.context() as there:
            there.setattr(float_rows, "library_for", lambda row: other)
            assert same_bits(compute("scalar"), expected)

    return compare


def combine(row: str, function: str) -> Array:
    out = np.empty(4_096, np.float32)
    given = (all_exponents(seed, 4_096) for seed in range(3))
    assert call("edgedec_math_combine", row, function.encode(), *given, out, 4_096) == 0
    return out


@needs_compiler
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_scalar_rows_have_the_bits_of_the_install(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = comparing(monkeypatch, scalar_rows(tmp_path, level, "vector_math", "rms_norm", "rotary_table"))
    x = all_exponents(1, 16_384)
    ints = x[np.abs(x) < 2.0**31]
    for function in MAPS:
        same(partial(test_math.apply, function=function, x=ints if function == "to_ints" else x))
    for function in COMBINES:
        same(partial(combine, function=function))
    x, weight, residual = test_rms_norm.make(576, 4, 576)
    same(lambda row: test_rms_norm.norm(row, x, weight, residual))
    positions, frequencies = np.arange(0, 100_000, 777), test_rotary_table.frequencies(128, 1e4)
    same(lambda row: test_rotary_table.table(row, positions, frequencies))


@pytest.fixture(scope="module", params=["-O0", "-O3"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with all parts at one level."""
    return build(tmp_path_factory.mktemp("level"), f"-DEDGEDEC_LEVEL={request.param}")


@pytest.mark.slow
@needs_cmake
@pytest.mark.parametrize("format", FORMATS)
def test_products_have_the_bits_of_the_install(whole: Path, format: str) -> None:
    for seed, (rows, cols) in enumerate(shapes(format)[:3]):
        w, x = random_packed(format, rows, cols, 300 + seed), inputs(9, cols, seed)
        expected = SCALAR.linear(w, x)
        for row in {"scalar", library.isa()}:
            assert Runner(row, whole).linear(w, x).tobytes() == expected.tobytes(), (row, rows, cols)


@pytest.mark.slow
@needs_cmake
@pytest.mark.parametrize(
    "model",
    [
        attention.Model(heads=14, kv_heads=2, dim=64, norms=True),
        attention.Model(heads=4, kv_heads=1, dim=256, window=20, int8=True),
    ],
    ids=str,
)
def test_attention_has_the_bits_of_the_install(
    whole: Path, model: attention.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = comparing(monkeypatch, whole)
    for tokens, length in ((1, 37), (16, 50), (40, 130)):
        x, cache, parents = model.tokens(tokens), model.cache(length, length + tokens), random_tree(1, tokens)
        same(partial(attention.run, model=model, tokens=x, parents=parents, cache=cache, length=length))


@pytest.mark.slow
@needs_cmake
def test_recurrent_passes_have_the_bits_of_the_install(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = DELTAS[0]
    text = layer.tokens(60)

    def passes(row: str) -> Array:
        memory = Memory(layer)
        outs = [memory.run(row, text[:40]), memory.run(row, text[40:], random_tree(1, 20))]
        return np.concatenate([part.ravel() for part in (*outs, memory.state, memory.trail)])

    comparing(monkeypatch, whole)(passes)
