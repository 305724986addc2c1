"""Replacing a directory, interrupted between any two steps: the old one or the new one is there, whole.

A killed process leaves a directory, which the next one removes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgedec.core.files import atomic_path


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
from edgedec.core.files import atomic_path
with atomic_path(Path(sys.argv[1]), directory=True) as folder:
    (folder / "weights.bin").write_text("half")
    print(folder, flush=True)
    time.sleep(600)
"""


def aged(folder: Path) -> None:
    """Let an hour pass for a folder."""
    for one in (*folder.iterdir(), folder):
        os.utime(one, (time.time() - 3600,) * 2)


def test_what_a_killed_process_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    target = tmp_path / "bundle[1]"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        left = Path(one.stdout.readline().strip())
        aged(left)
        with atomic_path(target, directory=True) as folder:
            (folder / "content").write_text("new")
        assert sorted(tmp_path.iterdir()) == [target, left]
        one.send_signal(signal.SIGKILL)
    aged(left)
    other = tmp_path / "bundle[1].partial-notes"
    other.mkdir()
    with atomic_path(target, directory=True):
        pass
    assert sorted(tmp_path.iterdir()) == [target, other]


def test_what_is_left_of_a_moment_ago_may_still_be_written(tmp_path: Path) -> None:
    left = tmp_path / "bundle.partial-0a1b2c3d"
    left.mkdir()
    with atomic_path(tmp_path / "bundle", directory=True):
        pass
    assert left.exists()
