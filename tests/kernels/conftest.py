"""What several kernel tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernels.arm import ArmLibrary


@pytest.fixture(scope="session")
def arm_library() -> Iterator[ArmLibrary]:
    """The library on an emulated Arm CPU that has every extension."""
    with ArmLibrary() as library:
        yield library
