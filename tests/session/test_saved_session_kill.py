"""kill -9 at any moment of saving: the old file or the new one is there, and the conversation goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from edgedec.session.session_file import open_file

ROOT = Path(__file__).resolve().parents[2]
SIZE = 8 << 20

SAVER = """
import sys
from pathlib import Path
import numpy as np
from edgedec.session.session_file import write_file
path, start = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
for number in range(start, start + 1000):
    body = np.full(int(sys.argv[3]), number % 256, dtype=np.uint8)
    pieces = np.split(body, 64)
    def write(sink):
        for piece in pieces:
            sink.write(piece.data)
    write_file(path, {"format": "edgedec-session", "version": 2, "number": number}, write)
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": ""}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def kill(victim: subprocess.Popen[str]) -> None:
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL


def test_a_killed_save_leaves_a_whole_file(tmp_path: Path) -> None:
    path, rng, number, halves = tmp_path / "talk", random.Random(4), 0, 0
    for _ in range(10):
        victim = start(SAVER, str(path), str(number), str(SIZE))
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        while not path.exists():
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.1))
        kill(victim)
        with open_file(path) as stored:  # checks the hash
            assert stored.document["number"] >= number
            number = stored.document["number"]
            body = np.frombuffer(stored.body.read(stored.body_bytes), dtype=np.uint8)
            assert len(body) == SIZE
            assert (body == number % 256).all()
        halves = len(list(tmp_path.glob("talk.partial-*")))
    assert halves > 0, "no process was killed while it wrote"
