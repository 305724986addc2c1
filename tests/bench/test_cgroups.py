"""Groups whose memory the kernel limits: real ones if there are any, and folders that look so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec.bench.harness import cgroups as groups
from edgedec.bench.harness.cgroups import Cgroup, cgroup

HUNGRY = "x = bytearray(200_000_000); x[::4096] = b'x' * len(x[::4096])"


def test_who_wants_more_is_killed_or_a_line_says_why_not() -> None:
    missing: list[str] = []
    with cgroup(missing=missing.append) as group:
        if group is None:
            assert len(missing) == 1
            assert "cgroup" in missing[0]
            return
        group.limit(100_000_000)
        done = subprocess.run([sys.executable, "-c", HUNGRY], check=False, preexec_fn=group.enter)
        assert done.returncode == -signal.SIGKILL
        assert group.kills() == 1
        assert 50_000_000 < (group.peak() or 0) <= 100_000_000
        group.limit(1_000_000_000)
        assert (
            subprocess.run([sys.executable, "-c", HUNGRY], check=False, preexec_fn=group.enter).returncode
            == 0
        )
    assert not missing
    assert not group.path.exists()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hierarchy of version 2 as systemd makes it: this process is in a scope of a user's slice, which has
    no other processes and is the user's.
    """
    root = tmp_path / "cgroup"
    scope = root / "user.slice" / "shell.scope"
    scope.mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpu io memory pids\n")
    (root / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (root / "user.slice" / "cgroup.subtree_control").write_text("memory pids\n")
    (scope / "cgroup.subtree_control").write_text("\n")
    (tmp_path / "mounts").write_text(f"proc /proc proc rw 0 0\ncgroup2 {root} cgroup2 rw,nsdelegate 0 0\n")
    (tmp_path / "own").write_text("0::/user.slice/shell.scope\n")
    monkeypatch.setattr(groups, "_VERSION_1", tmp_path / "none")
    monkeypatch.setattr(groups, "MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(groups, "OWN_GROUPS", tmp_path / "own")
    return root


def made(root: Path) -> tuple[Cgroup | None, str]:
    missing: list[str] = []
    with cgroup("-x", missing.append) as group:
        return group, "".join(missing)


def test_of_version_2_it_stands_beside_the_group_of_this_process(root: Path) -> None:
    group, missing = made(root)
    assert (group, missing) != (None, "")
    assert group is not None
    assert group.path == root / "user.slice" / f"edgedec-{os.getpid()}-x"
    assert int((group.path / "cgroup.procs").read_text()) != os.getpid()  # it was tried, by another one
    group.limit(123)
    assert (group.path / "memory.max").read_text() == "123"
    assert not (group.path / "memory.swap.max").exists()  # no such file: swap is not counted
    (group.path / "memory.swap.max").write_text("max")
    group.limit(456)
    assert (group.path / "memory.swap.max").read_text() == "0"
    assert group.peak() is None
    (group.path / "memory.peak").write_text("789\n")
    (group.path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n")
    assert (group.peak(), group.kills()) == (789, 1)
    group.enter()
    assert int((group.path / "cgroup.procs").read_text()) == os.getpid()


def test_what_is_missing_is_said(root: Path, tmp_path: Path) -> None:
    (root / "user.slice" / f"edgedec-{os.getpid()}-x").write_text("in the way")
    assert made(root) == (None, f"no cgroup can be made in {root / 'user.slice'} (File exists)")
    for giving in (root, root / "user.slice"):
        (giving / "cgroup.subtree_control").write_text("cpu pids\n")
    scope = root / "user.slice" / "shell.scope"
    assert made(root) == (None, f"no cgroup from {scope} up has memory in its cgroup.subtree_control")
    (root / "cgroup.controllers").write_text("cpu pids\n")
    assert made(root) == (None, f"the cgroups in {root} do not count memory")
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    assert made(root) == (None, "there are no cgroups here")


def test_a_group_that_nobody_may_enter_is_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(group: Cgroup) -> None:
        raise PermissionError

    monkeypatch.setattr(Cgroup, "enter", refused)
    assert made(root) == (None, f"no process may be moved into a cgroup in {root / 'user.slice'}")
