"""kill -9 of commands that save prefixes: at any moment of their start, their reply and their writing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.session.test_saved_prefixes import Bundle, bundle, files

__all__ = ["bundle"]  # a fixture
TEXT = "The cat sat on the mat, and the dog sat on the cat. " * 15


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["qwen2", "gemma3", "qwen35"])
def test_commands_that_are_killed_leave_the_next_one_its_reply(
    architecture: str, bundle: Bundle, tmp_path: Path
) -> None:
    """Files of a killed one are right or not read, and half-written ones go away in time."""
    rng = random.Random(7)
    command = [sys.executable, "-P", "-m", "edgedec", "generate", "-m", str(bundle(architecture)), "--raw"]
    command += ["-p", TEXT, "--max-tokens", "8", "--temperature", "0", "--context", "2000"]
    environment = {**os.environ, "EDGEDEC_HOME": str(tmp_path), "EDGEDEC_PREFIXES": "1GB"}
    without = {name: value for name, value in environment.items() if name != "EDGEDEC_PREFIXES"}
    began = time.monotonic()
    plain = subprocess.run(command, env=without, capture_output=True, text=True, check=False)
    assert plain.returncode == 0, plain.stderr
    whole_s = time.monotonic() - began
    for _ in range(10):
        victim = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0.6, 1.2) * whole_s)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (again.returncode, again.stdout) == (0, plain.stdout), again.stderr
        assert "removed" not in again.stderr
        for path in rng.sample(files(tmp_path), min(2, len(files(tmp_path)))):
            path.unlink()  # so that the next one has something to write
    assert files(tmp_path)
    for path in files(tmp_path):
        os.utime(path, (time.time() - 3600,) * 2)
        path.unlink() if ".partial-" not in path.name else None
    subprocess.run(command, env=environment, capture_output=True, check=True)
    assert not [path for path in files(tmp_path) if ".partial-" in path.name]
