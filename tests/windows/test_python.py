"""EdgeDec's wheel for Windows in Windows' Python, in Wine: Linux's tokens, and the tests of rooms.

CONTRIBUTING.md has the commands that bring the wheels. Wine keeps to no job object, so what needs the process
of a template is refused there, and tests of it are left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from edgedec.disk.home import default_home
from tests.conftest import ROOT
from tests.windows import cross, interpreter

LACKS = interpreter.missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(LACKS is not None, reason=str(LACKS))]
MODEL = "smollm2-135m"
needs_model = pytest.mark.skipif(
    not (default_home() / "models" / MODEL).is_dir(), reason=f"needs `edgedec pull {MODEL}`"
)
PROMPT = "def fibonacci(n):  # The first numbers are 0, 1, 1, 2, 3, 5, 8."
ROOMS = ("bundle", "core", "decode", "eviction", "memory", "metrics", "sampling", "verify")
FILES = ("draft/test_lookup.py", "system/test_windows.py", "disk/test_installing.py", "disk/test_locks.py")
LEFT_OUT = (
    "leads_elsewhere",  # symbolic links
    "leaves_no_file",  # of a lock that is still open
)
ABSENT = ("sampling/test_arm.py", "decode/test_constrained.py")
"""Files that begin with what Windows has not: qemu, and a table that is deleted while it is mapped."""


@cache
def environment() -> dict[str, str]:
    """Variables of this Python in Wine, which says that it is Windows 10."""
    found = cross.in_wine() | {"EDGEDEC_HOME": cross.windows_path(default_home())}
    subprocess.run(["wine", "winecfg", "-v", "win10"], env=found, capture_output=True, check=True)
    return found


def ask(*words: str, stdin: str = "", folder: Path = interpreter.FOLDER) -> tuple[int, str]:
    """The exit status and what is printed; streams are pipes, since Wine opens no other as Python does."""
    command = ["wine", str(interpreter.python()), *words]
    done = subprocess.run(
        command, input=stdin.encode(), capture_output=True, check=False, cwd=folder, env=environment()
    )
    return done.returncode, done.stdout.decode().replace("\r\n", "\n")


def generated(*words: str, windows: bool) -> Any:
    given = (
        "-m",
        "edgedec",
        "generate",
        "-m",
        MODEL,
        PROMPT,
        "--raw",
        "--max-tokens",
        "64",
        "--json",
        *words,
    )
    if windows:
        status, text = ask(*given)
        assert status == 0
        return json.loads(text)["tokens"]
    return json.loads(cross.run(sys.executable, *given))["tokens"]


def test_the_machine_is_described() -> None:
    status, text = ask("-m", "edgedec", "doctor", "--fast")
    assert status == 0
    assert "Windows 10" in text
    assert "counted by private" in text
    assert "avx2" in text
    assert ask("-m", "edgedec", "show", "nothing-of-this-name")[0] == 3


@needs_model
def test_replies_have_the_tokens_of_linux() -> None:
    greedy = generated("--temperature", "0", windows=False)
    drawn = generated("--temperature", "0.8", "--seed", "7", windows=False)
    assert len(greedy) == 64
    assert greedy != drawn
    assert generated("--temperature", "0", windows=True) == greedy
    assert generated("--temperature", "0.8", "--seed", "7", windows=True) == drawn
    assert generated("--temperature", "0", "--draft", "lookup,recycling,exit", windows=True) == greedy


@needs_model
def test_a_chat_is_read_from_a_pipe() -> None:
    chat = ("-m", "edgedec", "chat", MODEL, "--temperature", "0", "--max-tokens", "30")
    status, text = ask(*chat, stdin="Nenne drei Städte: Köln, 東京?\n")
    here = subprocess.run(
        [sys.executable, *chat],
        input="Nenne drei Städte: Köln, 東京?\n".encode(),
        capture_output=True,
        check=True,
        env=dict(os.environ),
    )
    assert status == 0
    assert text.strip() == here.stdout.decode().strip()


def test_rooms_pass_their_tests() -> None:
    interpreter.python()
    shutil.rmtree(interpreter.PACKAGES / "tests", ignore_errors=True)
    shutil.copytree(ROOT / "tests", interpreter.PACKAGES / "tests")
    chosen = [f"tests/{room}" for room in (*ROOMS, *FILES)]
    chosen += [word for name in ABSENT for word in ("--ignore", f"tests/{name}")]
    left_out = " and ".join(f"not {one}" for one in LEFT_OUT)
    status, text = ask(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", left_out, *chosen),
        folder=interpreter.PACKAGES,
    )
    assert status == 0, text[-3000:]
    assert int(text.rsplit(" passed", 1)[0].split()[-1]) > 1000
