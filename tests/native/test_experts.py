"""The native engine's experts in a process of their own: plans count the process, and tests fill one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.patience import PATIENCE_S

ALONE = Path(__file__).with_name("experts_alone.py")


def test_experts_in_a_process_that_has_run_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    inherited = {name: one for name, one in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, "--basetemp", str(tmp_path / "alone"), str(ALONE)],
        cwd=ROOT, env=inherited, capture_output=True, text=True, timeout=10 * PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert re.search(r"\b[1-9]\d* passed", done.stdout), done.stdout[-500:]
