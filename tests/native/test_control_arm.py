"""Control and speculation on 64-bit Arm, in qemu: the same drafts, plans and counts, to the bit."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from tests.control.parts import played
from tests.kernels.arm import ArmLibrary, needs_arm
from tests.kernels.float_rows import pointer

pytestmark = needs_arm


@pytest.fixture(scope="module")
def arm() -> Iterator[ArmLibrary]:
    with ArmLibrary() as library:
        yield library


@pytest.mark.parametrize("seed", range(8))
def test_the_same_run(arm: ArmLibrary, seed: int) -> None:
    expected = played(seed, 200)
    found = np.zeros(len(expected) // 8)
    given = ctypes.c_int64(seed), ctypes.c_int64(200), pointer(found), ctypes.c_size_t(len(found))
    assert arm.edgedec_probe_speculation(*given) == len(found)
    assert found.tobytes() == expected
