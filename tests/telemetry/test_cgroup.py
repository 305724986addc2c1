"""Memory that control groups leave: of both versions, of groups above, and in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.telemetry import machine
from edgedec.telemetry.cgroup import left_bytes

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
    monkeypatch.setattr(machine, "text_of", lambda path: "MemAvailable: 2048 kB\n")
    for left, expected in ((None, 2 << 20), (1 << 20, 1 << 20), (1 << 40, 2 << 20)):
        monkeypatch.setattr(machine, "left_bytes", lambda left=left: left)
        assert machine.available_bytes() == expected
