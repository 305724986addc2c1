"""Attention, experts and recurrent layers for Windows, in Wine: the bits of the scalar row on Linux."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import attention, test_arm, test_arm_floats
from tests.kernels.arm import ArmRunner
from tests.kernels.recurrent import RecurrentLayer
from tests.windows import cross
from tests.windows.conftest import Compare

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(cross.missing(wine=True) is not None, reason=str(cross.missing(wine=True))),
]


@pytest.mark.parametrize("model", test_arm_floats.MODELS, ids=str)
def test_tree_attention(same_in_wine: Compare, model: attention.Model) -> None:
    test_arm_floats.test_tree_attention(same_in_wine, model)


@pytest.mark.parametrize("seed", range(4))
def test_tree_attention_of_many_shapes(same_in_wine: Compare, seed: int) -> None:
    test_arm_floats.test_tree_attention_of_many_shapes(same_in_wine, seed)


@pytest.mark.parametrize("layer", test_arm_floats.RECURRENT, ids=str)
def test_gated_delta_and_short_convolution(same_in_wine: Compare, layer: RecurrentLayer) -> None:
    test_arm_floats.test_recurrent_ops(same_in_wine, layer)


@pytest.mark.parametrize("function", ["reduce_add", "reduce_add_each", "reduce_max"])
def test_reductions(same_in_wine: Compare, function: str) -> None:
    test_arm_floats.test_reductions(same_in_wine, function)


@pytest.mark.parametrize("name", test_arm.LAYERS)
def test_experts_in_memory_and_from_a_file(runner: ArmRunner, tmp_path: Path, name: str) -> None:
    """The file's folder has letters that no code page of the west has all of."""
    folder = tmp_path / "Größe Ω"
    folder.mkdir()
    test_arm.test_experts_have_the_same_bits_in_memory_and_from_a_file(runner, folder, name)
