"""The Arm rows of the quantised ops, in qemu: their choice, instructions, and the bits of the scalar row."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import numpy as np
import pytest

from edgedec.core.errors import UsageError
from edgedec.kernels import library
from edgedec.kernels.packing import layout
from tests.fixtures.nightly import diagonal
from tests.kernels.arm import ArmLibrary, ArmRunner, needs_arm
from tests.kernels.arm_build import BUILD, build, run
from tests.kernels.experts import Store, random_inputs, random_layer
from tests.kernels.experts import run as run_experts
from tests.kernels.float_rows import pointer, same_bits
from tests.kernels.quant_rows import ACTIVATIONS, FORMATS, SCALAR, Runner, random_packed
from tests.kernels.test_quant_linear import inputs, shapes

pytestmark = needs_arm

ROWS = ("neon_i8mm", "neon_dotprod", "scalar")
EVERY_ROW = pytest.mark.parametrize("row", ROWS)
CPUS = {"max": ROWS, "neoverse-n1": ROWS[1:], "cortex-a76": ROWS[1:], "cortex-a53": ROWS[2:]}


@pytest.fixture
def runner(row: str, arm_library: ArmLibrary) -> Runner:
    return ArmRunner(row, library=arm_library)


def ask(monkeypatch: pytest.MonkeyPatch, arm: ArmLibrary) -> None:
    """Let edgedec.kernels.library ask the library on the Arm CPU."""
    for name in ("edgedec_isa", "edgedec_every_isa", "edgedec_selected_isa"):
        getattr(arm, name).restype = ctypes.c_char_p
    monkeypatch.setattr(library, "load", lambda *_: arm)
    monkeypatch.setitem(os.environ, "EDGEDEC_ISA", arm.isa or "")


@pytest.mark.parametrize("cpu", CPUS)
def test_the_best_row_of_the_cpu_is_chosen(monkeypatch: pytest.MonkeyPatch, cpu: str) -> None:
    w, x = random_packed("q4_k", 17, 256, 1), inputs(3, 256, 1)
    expected = SCALAR.linear(w, x)
    with ArmLibrary(cpu) as arm:
        ask(monkeypatch, arm)
        assert library.rows() == list(ROWS)
        assert library.available() == list(CPUS[cpu])
        assert library.isa() == CPUS[cpu][0]
        assert library.can_run("neon")
        assert not library.can_run("avx2")
        got = ArmRunner(library.isa(), library=arm).linear(w, x)
        for row in set(ROWS) - set(CPUS[cpu]):  # refused, not tried: it would be an illegal instruction
            with pytest.raises(AssertionError, match="returned 1"):
                ArmRunner(row, library=arm).linear(w, x)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("cpu", "row"), [(cpu, row) for cpu, rows in CPUS.items() for row in ROWS])
def test_a_row_can_be_forced_where_the_cpu_has_it(
    monkeypatch: pytest.MonkeyPatch, cpu: str, row: str
) -> None:
    with ArmLibrary(cpu, isa=row) as arm:
        ask(monkeypatch, arm)
        if row in CPUS[cpu]:
            assert library.isa() == row
            return
        with pytest.raises(UsageError) as refused:
            library.isa()
    assert refused.value.message == f"EDGEDEC_ISA={row} cannot run on this CPU"
    assert refused.value.hint == f"use one of: {', '.join(CPUS[cpu])}"


def test_only_the_rows_with_flags_use_their_instructions() -> None:
    build()
    found = {}
    folder = BUILD / "kernels" / "CMakeFiles"
    for path in folder.rglob("*.o"):
        code = run("aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", path)
        used = set(re.findall(r"\t((?:us|u|s|su)dot|(?:us|u|s)mmla)\s", code))
        if used:
            found[path.relative_to(folder).parts[0]] = used
    assert found == {
        "edgedec_linear_neon_dotprod.dir": {"sdot"},
        "edgedec_linear_neon_i8mm.dir": {"sdot", "smmla", "usdot", "usmmla"},
    }


@EVERY_ROW
def test_quantising_has_the_same_bits(runner: Runner) -> None:
    for cols in (1, 15, 31, 32, 33, 255, 256, 257, 576):
        x = inputs(9, cols, cols)
        x[1:5] *= np.float32([[1e-45], [1e-40], [3.7e-37], [1e30]])
        x[5:, cols // 2] = np.nan, -np.nan, np.inf, -np.inf
        for got, expected in zip(runner.quantise(x), SCALAR.quantise(x), strict=True):
            assert same_bits(got, expected), cols


@pytest.mark.parametrize(("row", "format"), diagonal(ROWS, list(FORMATS)))
def test_linear_has_the_same_bits_for_any_number_of_tokens(runner: Runner, format: str) -> None:
    few = 2 if runner.row == "scalar" else 6
    for seed, (rows, cols) in enumerate(shapes(format)[:few]):
        w, x = random_packed(format, rows, cols, 300 + seed), inputs(16, cols, seed)
        for terms in (1, 2):
            expected = SCALAR.linear(w, x, terms=terms)
            for k in range(1, 17):
                got = runner.linear(w, x[:k], terms=terms)
                assert got.tobytes() == expected[:k].tobytes(), (rows, cols, k, terms)


@EVERY_ROW
def test_extreme_quants_do_not_saturate(runner: Runner) -> None:
    for format in FORMATS:
        for fill in (0x00, 0xFF, 0x7F, 0x80):
            w = random_packed(format, 16, 256, 1)
            w.data[:, 64:] = fill
            x = np.ones((3, 256), dtype=np.float32) * np.float32([[1], [-1], [1]])
            assert same_bits(runner.linear(w, x), SCALAR.linear(w, x)), (format, fill)


@EVERY_ROW
def test_the_other_quantised_ops_have_the_same_bits(runner: Runner) -> None:
    for m in (1, 2, 7, 18):
        gate, up = random_packed("q4_k", 100, 512, 1), random_packed("q6_k", 100, 512, 2)
        x = inputs(m, 512, m)
        for act in ACTIVATIONS:
            assert same_bits(runner.gated_mlp(gate, up, x, act), SCALAR.gated_mlp(gate, up, x, act))
        bias, residual = np.linspace(-1, 1, 100, dtype=np.float32), x[:, :100].copy()
        assert same_bits(runner.linear(up, x, bias, residual), SCALAR.linear(up, x, bias, residual))
    for format in ("q6_k", "q8_0"):
        table, keep = random_packed(format, 2100, 256, 5), np.arange(0, 2100, 3, dtype=np.int64)
        x = inputs(5, 256, 6)
        x[4, 3] = np.nan
        for refined, kept in ((False, None), (True, None), (True, keep)):
            expected, got = (
                row.head(table, x, keep=kept, logits=True, refined=refined, temperature=0.7)
                for row in (SCALAR, runner)
            )
            assert all(same_bits(got[name], expected[name]) for name in expected), (format, refined)


LAYERS = {
    "softmax": (("q4_k", "q4_k", "q6_k"), {}),
    "sigmoid": (("q8_0", "q4_0", "q5_0"), {"sigmoid": True, "epsilon": 1e-6, "scale": 1.5}),
    "gelu": (("q4_0", "q4_0", "q4_0"), {"activation": "gelu_tanh"}),
    "clamped, with biases": (("mxfp4", "mxfp4", "mxfp4"), {"activation": "clamped_silu", "biased": True}),
}


@pytest.mark.parametrize("name", LAYERS)
@EVERY_ROW
def test_experts_have_the_same_bits_in_memory_and_from_a_file(
    runner: ArmRunner, tmp_path: Path, name: str
) -> None:
    formats, rules = LAYERS[name]
    layer = random_layer(formats, 6, 256, 256, chosen=3, **rules)
    file = tmp_path / "weights.bin"
    file.write_bytes(layer.data.tobytes())
    with Store(file, layer.data.shape[1], 3, kernels=runner.library) as store:
        for m in (1, 2, 7):
            inputs = random_inputs(layer, m, m, extras=True)
            expected = run_experts(SCALAR, layer, inputs)
            assert same_bits(run_experts(runner, layer, inputs), expected), m
            assert same_bits(run_experts(runner, layer, inputs, stored=(store, 0)), expected), m


@pytest.mark.parametrize("format", FORMATS)
def test_embedding_has_the_same_bits(arm_library: ArmLibrary, format: str) -> None:
    w, ids = random_packed(format, 50, 512, 3), np.array([0, 49, 17, 17], np.int64)
    out = np.empty((4, 512), np.float32)
    status = arm_library.edgedec_quant_embedding(
        format.encode(), pointer(w.data), 50, 512, pointer(ids), 4, ctypes.c_float(1.5), pointer(out)
    )
    assert status == 0
    assert np.array_equal(out, w.dense[ids] * np.float32(1.5))


@pytest.mark.slow
@EVERY_ROW
@pytest.mark.parametrize("format", FORMATS)
def test_many_random_matrices(runner: Runner, format: str) -> None:
    rng = np.random.default_rng(len(format))
    block = layout.FORMATS[format].block
    for seed in range(60):
        rows, cols = int(rng.integers(1, 200)), int(rng.integers(1, 2048 // block)) * block
        w, x = random_packed(format, rows, cols, seed), inputs(int(rng.integers(1, 80)), cols, seed)
        x *= np.float32(10.0) ** rng.integers(-30, 30, (len(x), 1)).astype(np.float32)
        for terms in (1, 2):
            assert same_bits(runner.linear(w, x, terms=terms), SCALAR.linear(w, x, terms=terms)), (
                seed,
                terms,
            )
