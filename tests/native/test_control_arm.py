"""The native control on 64-bit Arm, in qemu: the same plans and estimates, to the bit."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.arm import ArmLibrary, needs_arm
from tests.kernels.float_rows import pointer
from tests.native.test_control import play

pytestmark = needs_arm


@pytest.fixture(scope="module")
def arm() -> Iterator[ArmLibrary]:
    with ArmLibrary() as library:
        yield library


@pytest.mark.parametrize("seed", [1, 5, 14, 17])
def test_the_same_plans(arm: ArmLibrary, seed: int) -> None:
    script, expected = play(seed, 250).finish()
    found = np.zeros_like(expected)
    sizes = ctypes.c_size_t(len(script)), ctypes.c_size_t(len(found))
    count = arm.edgedec_probe_control(pointer(script), sizes[0], pointer(found), sizes[1])
    assert count == len(expected)
    assert found.tobytes() == expected.tobytes()
