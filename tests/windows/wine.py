"""The library for Windows, called as the one for Arm is in qemu."""

from __future__ import annotations

import subprocess

from tests.kernels.arm import ArmLibrary
from tests.windows import cross


class WineLibrary(ArmLibrary):
    """It chooses among the rows that this machine's processor has."""

    def __post_init__(self) -> None:
        kernels, driver = cross.library("Windows", "x86_64"), cross.windows_program("driver")
        self._process = subprocess.Popen(
            ["wine", str(driver), str(kernels)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=cross.in_wine(),
        )
