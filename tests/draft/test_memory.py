"""Memory of the drafters' tables, which Python's own bookkeeping does not see."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
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


MAKE: dict[str, Make] = {
    "lookup": lambda: Lookup(capacity=1 << 20),
    "recycling": lambda: Recycling(memory=1 << 23),
}


def growth(name: str) -> dict[str, float]:
    """Times a drafter's size by which the process grew: with three more of them, after 100 sequences, and
    after 20 times one took the place of all.
    """
    make = MAKE[name]
    data = make().saved()
    drafters = [filled(make(), data)]
    before, size = resident(), drafters[0].nbytes()
    grown = {"size": float(size)}
    for _ in range(3):
        drafters.append(filled(make(), data))
    grown["three more"] = (resident() - before) / size
    for turn in range(100):
        drafters[0].begin([turn] * 100, 0)
        drafters[0].commit(range(1000))
    grown["used"] = (resident() - before) / size
    grown["size after use"] = float(drafters[0].nbytes())
    for _ in range(20):
        drafters[:] = [filled(make(), data)]
    grown["replaced"] = (resident() - before) / size
    return grown


@pytest.mark.parametrize("name", MAKE)
def test_memory_is_what_it_says_stays_that_and_is_given_back(name: str) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # of which nothing else has memory
        grown = pool.submit(growth, name).result()
    assert grown["size"] == grown["size after use"] == pytest.approx(8 << 20, rel=0.05)
    assert grown["three more"] == pytest.approx(3, rel=0.25)
    # The allocator may keep the buffer of one restore.
    assert grown["used"] < 4.5
    assert grown["replaced"] < 4.5
