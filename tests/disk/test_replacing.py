"""Replacing a directory, interrupted between any two steps: the old one or the new one is there, whole.

A killed process leaves a directory, which the next one removes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgedec.disk.files import atomic_path


@pytest.mark.parametrize(("renames", "left"), [(0, "old"), (1, "old"), (2, "new")])
def test_an_interrupt_after_any_rename(
    renames: int, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "bundle"
    target.mkdir()
    (target / "content").write_text("old")
    rename = os.rename
    done = 0

    def interrupted(source: Path, destination: Path) -> None:
        nonlocal done
        if renames == 0 == done:
            done += 1
            raise KeyboardInterrupt
        rename(source, destination)
        done += 1
        if done == renames:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_path(target, directory=True) as temporary:
        (temporary / "content").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert (target / "content").read_text() == left


WRITER = """
import sys, time
from pathlib import Path
from edgedec.disk.files import atomic_path
with atomic_path(Path(sys.argv[1]), directory=True) as folder:
    (folder / "weights.bin").write_text("half")
    print(folder, flush=True)
    time.sleep(600)
"""


def writer(target: Path) -> subprocess.Popen[str]:
    """A process that has begun to write a directory, and waits."""
    return subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE, text=True)


def test_what_a_killed_process_left_goes_at_once_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    target = tmp_path / "bundle[1]"
    others = [tmp_path / f"bundle[1].partial-{end}" for end in ("notes", "my-notes")]
    for other in others:
        other.mkdir()
    with writer(target) as one:
        assert one.stdout is not None
        left = Path(one.stdout.readline().strip())
        for path in (*left.iterdir(), left):
            os.utime(path, (time.time() - 3600,) * 2)
        with atomic_path(target, directory=True) as folder:
            (folder / "content").write_text("new")
        assert sorted(tmp_path.iterdir()) == sorted([target, left, *others])
        one.send_signal(signal.SIGKILL)
    with atomic_path(target, directory=True):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([target, *others])


@pytest.mark.parametrize(("age_s", "stays"), [(0, True), (3600, False)])
def test_on_a_file_system_without_locks_age_tells(
    age_s: int, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlocked(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", unlocked)
    left = tmp_path / "bundle.partial-0a1b2c3d"
    left.mkdir()
    os.utime(left, (time.time() - age_s,) * 2)
    with atomic_path(tmp_path / "bundle", directory=True):
        pass
    assert left.exists() == stays


def test_a_directory_that_was_taken_for_abandoned_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, removed = fcntl.flock, []

    def late(descriptor: int, operation: int) -> None:
        if not removed:
            (folder,) = tmp_path.iterdir()
            folder.rmdir()
            removed.append(folder)
        flock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", late)
    with atomic_path(tmp_path / "bundle", directory=True) as folder:
        (folder / "content").write_text("new")
    assert removed
    assert (tmp_path / "bundle/content").read_text() == "new"
