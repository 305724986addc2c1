"""Calls that limit memory on Windows: structs as a compiler has them, and calls that Wine takes.

Wine keeps to no such limit, so only a real machine shows that memory ends.
"""

from __future__ import annotations

import ctypes
import subprocess

import pytest

from edgedec.system import windows_limits
from tests.windows import cross

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(cross.missing(wine=True) is not None, reason=str(cross.missing(wine=True))),
]


def test_structs_and_numbers_are_those_of_winnt() -> None:
    program = cross.windows_program("job_host")
    said = subprocess.run(["wine", program], capture_output=True, check=True, env=cross.in_wine()).stdout
    limits, counters = windows_limits.JobLimits, windows_limits.Counters
    assert [int(line) for line in said.split()] == [
        ctypes.sizeof(limits),
        limits.flags.offset,
        limits.process_bytes.offset,
        ctypes.sizeof(counters),
        counters.committed.offset,
        windows_limits._LIMITS,
        windows_limits._PROCESS_MEMORY,
        windows_limits.MEMORY_UP,
        *(1, 1, 1, 0),  # calls, of which the last one states another size
    ]
