"""Cores that a process may use: its affinity and the CPU quota of its control groups."""

from __future__ import annotations

import os

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.core.errors import Remedy, UsageError
from edgedec.telemetry import cores


def test_a_quota_lowers_the_usable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "quota_cores", lambda: None)
    assert cores.usable_cores() == 8
    monkeypatch.setattr(cores, "quota_cores", lambda: 3)
    assert cores.usable_cores() == 3
    assert cores.physical_cores() <= 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5}, raising=False)
    assert cores.usable_cores() == cores.physical_cores() == 1


@pytest.mark.parametrize("threads", [0, 3, 64])
def test_threads_that_no_core_runs_are_refused(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(cores, "usable_cores", lambda: 2)
    with pytest.raises(UsageError, match="2 cores") as caught:
        RunConfig(threads=threads)
    assert caught.value.remedies == (Remedy("threads", 2),)
    assert caught.value.hint == "use 1 to 2"
    assert RunConfig(threads=2).threads == 2
