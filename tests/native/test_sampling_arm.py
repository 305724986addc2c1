"""The native sampler on an emulated 64-bit Arm CPU: the same tokens, and the same bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.arm import ArmLibrary, needs_arm
from tests.native.drawing import compare_numbers, native, random_drawing

pytestmark = [needs_arm, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@pytest.fixture(scope="module")
def arm() -> Iterator[ArmLibrary]:
    with ArmLibrary("cortex-a53") as library:
        yield library


def test_random_draws_are_those_of_this_machine(arm: ArmLibrary) -> None:
    for seed in range(300):
        case = random_drawing(np.random.default_rng([90, seed]))
        assert native(case, arm) == native(case), (seed, case.params.summary())


def test_exp_and_log_and_noise_have_pythons_bits(arm: ArmLibrary) -> None:
    compare_numbers(arm)
