"""Cores that a process may use: its affinity and the CPU quota of its control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.core.errors import Remedy, UsageError
from edgedec.telemetry import cores


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", None), ("150000 100000", 2), ("50000 100000", 1), ("", None)]
)
def test_the_quota_of_a_container_is_in_its_root(tmp_path: Path, quota: str, expected: int | None) -> None:
    write(tmp_path / "cpu.max", quota)
    assert cores.quota_cores("0::/", tmp_path) == expected


def test_the_least_quota_of_all_groups_above_counts(tmp_path: Path) -> None:
    write(tmp_path / "all" / "cpu.max", "300000 100000")
    write(tmp_path / "all" / "some" / "cpu.max", "max 100000")
    assert cores.quota_cores("0::/all/some\n", tmp_path) == 3


def test_older_control_groups_have_a_quota_too(tmp_path: Path) -> None:
    write(tmp_path / "cpu,cpuacct" / "box" / "cpu.cfs_quota_us", "400000\n")
    write(tmp_path / "cpu,cpuacct" / "box" / "cpu.cfs_period_us", "100000\n")
    groups = "5:memory:/box\n4:cpu,cpuacct:/box\n0::/\n"
    assert cores.quota_cores(groups, tmp_path) == 4
    write(tmp_path / "cpu,cpuacct" / "box" / "cpu.cfs_quota_us", "-1\n")
    assert cores.quota_cores(groups, tmp_path) is None


def test_a_group_that_is_not_visible_has_no_quota(tmp_path: Path) -> None:
    assert cores.quota_cores("4:cpu:/docker/box\n0::/../../elsewhere\nnonsense\n", tmp_path) is None


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
