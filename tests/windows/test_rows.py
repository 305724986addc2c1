"""Windows on x86-64, in Wine: the rows that the processor has, and the bits of the scalar row on Linux."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from edgedec.kernels import library
from tests.kernels import test_arm, test_arm_floats, test_math
from tests.kernels.arm import ArmRunner
from tests.kernels.float_rows import same_bits
from tests.kernels.quant_rows import FORMATS, SCALAR, random_packed
from tests.kernels.test_quant_linear import inputs
from tests.windows import cross
from tests.windows.conftest import Compare
from tests.windows.wine import WineLibrary

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(cross.missing(wine=True) is not None, reason=str(cross.missing(wine=True))),
]
QUANTISED = (
    "quantising_has_the_same_bits",
    "extreme_quants_do_not_saturate",
    "the_other_quantised_ops_have_the_same_bits",
)
FLOATS = ("equal_zeros_keep_the_sign_of_the_second", "halves", "doubles")


def test_the_rows_are_those_of_linux(wine: WineLibrary) -> None:
    """But for tiles, which Windows gives to nobody who does not ask in its way."""
    wine.edgedec_selected_isa.restype = ctypes.c_char_p
    rows = [row for row in library.available() if row != "amx"]
    assert all(wine.edgedec_cpu_has(row.encode()) for row in rows)
    assert not wine.edgedec_cpu_has(b"neon")
    assert wine.edgedec_selected_isa() == rows[0].encode()


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_ops(runner: ArmRunner, name: str) -> None:
    getattr(test_arm, f"test_{name}")(runner)


@pytest.mark.parametrize("format", FORMATS)
def test_linear(runner: ArmRunner, format: str) -> None:
    w, x = random_packed(format, 67, 512, 7), inputs(9, 512, 7)
    for terms in (1, 2):
        assert same_bits(runner.linear(w, x, terms=terms), SCALAR.linear(w, x, terms=terms))


@pytest.mark.parametrize("format", FORMATS)
def test_embedding(wine: WineLibrary, format: str) -> None:
    test_arm.test_embedding_has_the_same_bits(wine, format)


@pytest.mark.parametrize("name", FLOATS)
def test_float_ops(same_in_wine: Compare, name: str) -> None:
    getattr(test_arm_floats, f"test_{name}")(same_in_wine)


@pytest.mark.parametrize("function", [*test_math.MAPS])
def test_functions(same_in_wine: Compare, function: str) -> None:
    test_arm_floats.test_functions(same_in_wine, function)


@pytest.mark.parametrize("function", [*test_math.COMBINES])
def test_combinations(same_in_wine: Compare, function: str) -> None:
    test_arm_floats.test_combinations(same_in_wine, function)


@pytest.mark.parametrize("d", [1, 63, 576])
def test_norms_and_rotary_tables(same_in_wine: Compare, d: int) -> None:
    test_arm_floats.test_rms_norm_and_rotary_table(same_in_wine, d)


def test_threads_share_a_matrix(wine: WineLibrary) -> None:
    """Each of them keeps scratch of its own, which goes when it ends."""
    w, x = random_packed("q4_k", 500, 512, 3), inputs(5, 512, 3)
    wine.edgedec_set_threads(4)
    try:
        for _ in range(20):
            got = ArmRunner("scalar", library=wine).linear(w, x)
            assert np.array_equal(got, SCALAR.linear(w, x))
    finally:
        wine.edgedec_set_threads(1)
