"""Threads that stay together over a pass: while the one that leads waits for a disk, the others sleep."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which(os.environ.get("CXX", "c++"))


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_helpers_sleep_while_the_leader_waits(tmp_path: Path) -> None:
    """They spin for half a millisecond at most; a helper that yields until the disk is there takes a core."""
    made, source = tmp_path / "host", Path(__file__).with_name("team_host.cc")
    flags = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", str(ROOT / "kernels"))
    subprocess.run([str(COMPILER), *flags, str(source), "-o", str(made)], check=True)
    found = subprocess.run([str(made)], capture_output=True, text=True, check=True, timeout=60)
    waiting_ms, done = found.stdout.split()
    assert int(done) == 400
    assert float(waiting_ms) < 15.0, "of 300 ms that the leader waited"
