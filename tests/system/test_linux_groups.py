"""Memory and cores that control groups leave: of both versions, of groups above, and in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.system import linux
from edgedec.system.linux import left_bytes, quota_cores

MB = 1 << 20


def group(folder: Path, version: int, limit: str, usage: int, cached: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = (
        ("memory.max", "memory.current")
        if version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    key = "inactive_file" if version == 2 else "total_inactive_file"
    for name, text in zip(names, (limit, str(usage)), strict=True):
        (folder / name).write_text(f"{text}\n")
    (folder / "memory.stat").write_text(f"anon {usage}\n{key} {cached}\n")


def own(tmp_path: Path, text: str) -> Path:
    (tmp_path / "cgroup").write_text(text)
    return tmp_path / "cgroup"


@pytest.mark.parametrize(("version", "line", "below"), [(2, "0::/a/b", ""), (1, "4:memory:/a/b", "memory")])
def test_the_tightest_group_decides(tmp_path: Path, version: int, line: str, below: str) -> None:
    mounts = tmp_path / "mounts"
    group(mounts / below / "a", version, str(100 * MB), 30 * MB)
    group(mounts / below / "a/b", version, str(500 * MB), 20 * MB)
    assert left_bytes(mounts, own(tmp_path, f"3:cpu:/x\n{line}\n")) == 70 * MB


def test_cached_pages_of_files_count_as_left(tmp_path: Path) -> None:
    group(tmp_path / "a", 2, str(100 * MB), 90 * MB, cached=60 * MB)
    assert left_bytes(tmp_path, own(tmp_path, "0::/a\n")) == 70 * MB


def test_a_container_sees_its_group_at_the_root(tmp_path: Path) -> None:
    """The path in /proc may be one that is not mounted there."""
    group(tmp_path, 2, str(100 * MB), 40 * MB)
    assert left_bytes(tmp_path, own(tmp_path, "0::/docker/0123\n")) == 60 * MB


def test_without_a_limit_there_is_none(tmp_path: Path) -> None:
    group(tmp_path / "a", 2, "max", 40 * MB)
    assert left_bytes(tmp_path, own(tmp_path, "0::/a\n")) is None
    assert left_bytes(tmp_path, tmp_path / "none") is None


def test_a_group_beyond_its_limit_has_nothing_left(tmp_path: Path) -> None:
    group(tmp_path / "a", 2, str(MB), 2 * MB)
    assert left_bytes(tmp_path, own(tmp_path, "0::/a\n")) == 0


def test_the_machine_or_the_group_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "text_of", lambda path: "MemAvailable: 2048 kB\n")
    for left, expected in ((None, 2 << 20), (1 << 20, 1 << 20), (1 << 40, 2 << 20)):
        monkeypatch.setattr(linux, "left_bytes", lambda left=left: left)
        assert linux.available_bytes() == expected


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", None), ("150000 100000", 2), ("50000 100000", 1), ("", None)]
)
def test_the_quota_of_a_container_is_in_its_root(tmp_path: Path, quota: str, expected: int | None) -> None:
    write(tmp_path / "cpu.max", quota)
    assert quota_cores("0::/", tmp_path) == expected


def test_the_least_quota_of_all_groups_above_counts(tmp_path: Path) -> None:
    write(tmp_path / "all" / "cpu.max", "300000 100000")
    write(tmp_path / "all" / "some" / "cpu.max", "max 100000")
    assert quota_cores("0::/all/some\n", tmp_path) == 3


def test_older_control_groups_have_a_quota_too(tmp_path: Path) -> None:
    write(tmp_path / "cpu,cpuacct" / "box" / "cpu.cfs_quota_us", "400000\n")
    write(tmp_path / "cpu,cpuacct" / "box" / "cpu.cfs_period_us", "100000\n")
    groups = "5:memory:/box\n4:cpu,cpuacct:/box\n0::/\n"
    assert quota_cores(groups, tmp_path) == 4
    write(tmp_path / "cpu,cpuacct" / "box" / "cpu.cfs_quota_us", "-1\n")
    assert quota_cores(groups, tmp_path) is None


def test_a_group_that_is_not_visible_has_no_quota(tmp_path: Path) -> None:
    assert quota_cores("4:cpu:/docker/box\n0::/../../elsewhere\nnonsense\n", tmp_path) is None
