"""Memory of the drafters' tables, which Python's own bookkeeping does not see."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edgedec.draft import Lookup, Recycling
from edgedec.draft.native import NativeDrafter

Make = Callable[[], NativeDrafter]


def resident() -> int:
    """Bytes of this process in physical memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def filled(drafter: NativeDrafter, data: bytes) -> NativeDrafter:
    """One that has touched all of its memory."""
    if data:
        drafter.restore(data, 10)
    for _ in range(0 if data else 1200):
        drafter.commit([1, 2, 3, 4, 5, 6, 7, 8] * 125)
    drafter.propose(1)
    return drafter


@pytest.mark.parametrize("make", [lambda: Lookup(capacity=1 << 20), lambda: Recycling(memory=1 << 23)])
def test_memory_is_what_it_says_stays_that_and_is_given_back(make: Make) -> None:
    data = make().saved()
    drafters = [filled(make(), data)]
    before, size = resident(), drafters[0].nbytes()
    assert size == pytest.approx(8 << 20, rel=0.05)
    for _ in range(3):
        drafters.append(filled(make(), data))
    assert resident() - before == pytest.approx(3 * size, rel=0.25)
    for turn in range(100):
        drafters[0].begin([turn] * 100, 0)
        drafters[0].commit(range(1000))
    assert resident() - before < 3.5 * size
    assert drafters[0].nbytes() == size
    for _ in range(20):
        drafters[:] = [filled(make(), data)]
    assert resident() - before < 3.5 * size
