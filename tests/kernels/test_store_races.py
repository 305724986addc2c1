"""A store of experts that threads use and disturb at once, with sanitizers: no report, and no wrong byte."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.kernels.sanitizers import STATUS, program, watched

pytestmark = pytest.mark.slow

SANITIZERS = ("thread", "address,undefined")


def run(folder: Path, sanitizers: str, *more: str) -> subprocess.CompletedProcess[str]:
    host = program("store_host", folder, sanitizers, "experts/store.cc")
    return watched(host, folder / "weights.bin", *more)


@pytest.mark.parametrize("sanitizers", SANITIZERS)
def test_passes_at_once_get_whole_experts_or_an_error(tmp_path: Path, sanitizers: str) -> None:
    done = run(tmp_path, sanitizers)
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert done.stderr == ""
    found = re.fullmatch(
        r"(\d+) held, (\d+) refused, (\d+) interrupted, (\d+) unread, (\d+) wrong\n", done.stdout
    )
    assert found, done.stdout
    held, _, interrupted, unread, wrong = map(int, found.groups())
    assert held > 1000
    assert interrupted > 0
    assert unread > 0
    assert wrong == 0


def test_a_race_would_be_seen(tmp_path: Path) -> None:
    done = run(tmp_path, "thread", "race")
    assert done.returncode == STATUS, done.stdout + done.stderr
    assert "data race" in done.stderr
