"""Signals and a shortage of memory end the program with a status and at most one line, at any moment."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgedec.cli import errors
from edgedec.export import export_gguf
from tests.cli.support import Home, run
from tests.fixtures.nightly import every
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.patience import PATIENCE_S

MB = 1 << 20
START = """
import os
from edgedec.cli import early, main
early.leave_at_once()
os.write(1, b"up\\n")
main.main()
"""
"""As the program starts, with a word when its first lines have run: what is before them is Python alone."""


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose replies neither end by themselves nor fill its context soon."""
    directory = tmp_path_factory.mktemp("endless")
    source = write_tiny(directory / "tiny.gguf", shape=TinyShape(context=65536), mute=(0, 1, 2))
    export_gguf(source, directory / "bundle")
    return directory / "bundle"


def started(
    home: Home, *arguments: str, program: tuple[str, ...] = ("-m", "edgedec.cli.main")
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"EDGEDEC_HOME": str(home.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def long_reply(bundle: Path) -> list[str]:
    return ["-m", str(bundle), "--threads", "1", "--draft", "off", "--max-tokens", "100000"]


INTERRUPTED_AT_IMPORT = """
import os, signal, sys
before = set(sys.modules)
real = os._exit

def told(status):
    os.write(1, " ".join(sorted(set(sys.modules) - before)).encode())
    real(status)

def interrupted(event, names):
    if event == "import" and "edgedec.cli.early" in sys.modules and names[0] not in before | {"_signal"}:
        os.kill(os.getpid(), signal.SIGINT)

os._exit = told
sys.addaudithook(interrupted)
"""
"""Sends a Ctrl-C at the first import behind that of the entry point, and tells what was imported before."""


@pytest.mark.parametrize("name", ["edgedec.cli.main", "edgedec.__main__"])
def test_ctrl_c_at_the_first_import_of_the_command_is_quiet(name: str) -> None:
    """As pip's script starts the command, and as ``python -m edgedec`` does once runpy has found it."""
    program = f"{INTERRUPTED_AT_IMPORT}from {name} import main\nmain()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (errors.INTERRUPTED, "")
    # An editable install imports more, of the standard library.
    ours = [one for one in done.stdout.split() if one.partition(".")[0] == "edgedec"]
    assert ours == sorted({"edgedec", "edgedec.cli", "edgedec.cli.early", "edgedec.cli.main", name})


@pytest.mark.parametrize("delay_s", every(6, (0.005 * step for step in range(60))))
def test_ctrl_c_at_any_moment_of_the_start_is_quiet(home: Home, delay_s: float) -> None:
    done = started(home, "plan", "--help", program=("-c", START))
    assert done.stdout is not None
    assert done.stdout.readline() == "up\n"
    time.sleep(delay_s)
    done.send_signal(signal.SIGINT)
    _, told = done.communicate(timeout=PATIENCE_S)
    assert told.strip() == ""
    # Python gives SIGINT back to the system while it ends; a shell reads that death as 130 too.
    assert done.returncode in (0, errors.INTERRUPTED, -signal.SIGINT)


@pytest.mark.parametrize("delay_s", every(3, (0.05 * step for step in range(12))))
def test_ctrl_c_while_libraries_are_imported_is_quiet(home: Home, endless: Path, delay_s: float) -> None:
    arguments = ("generate", "-p", "Hi", *long_reply(endless), "--context", "60000", "--temperature", "0")
    done = started(home, *arguments, program=("-c", START))
    assert done.stdout is not None
    assert done.stdout.readline() == "up\n"
    time.sleep(delay_s)
    done.send_signal(signal.SIGINT)
    _, told = done.communicate(timeout=PATIENCE_S)
    assert told.strip() == ""
    assert done.returncode == errors.INTERRUPTED


def test_sigterm_ends_a_reply_as_ctrl_c_does(home: Home, bundle: Path) -> None:
    done = started(home, "generate", "-p", "Hi", *long_reply(bundle), "--when-full", "slide", "--raw")
    assert done.stdout is not None
    assert done.stdout.read(1)
    done.send_signal(signal.SIGTERM)
    said, told = done.communicate(timeout=PATIENCE_S)
    assert (done.returncode, told) == (errors.TERMINATED, "error: terminated\n")
    assert said.endswith("\n")


def test_sigterm_saves_the_conversation(home: Home, bundle: Path, tmp_path: Path) -> None:
    talk = tmp_path / "talk"
    chat = started(home, "chat", *long_reply(bundle), "--when-full", "slide", "--session", str(talk))
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write("Hi\n")
    chat.stdin.flush()
    assert chat.stdout.read(1)
    chat.send_signal(signal.SIGTERM)
    _, told = chat.communicate(timeout=PATIENCE_S)
    assert chat.returncode == errors.TERMINATED
    assert told.splitlines()[-1] == "error: terminated"
    assert talk.exists()


def test_sigterm_between_turns_ends_the_chat(home: Home, bundle: Path) -> None:
    chat = started(home, "chat", "-m", str(bundle), "--draft", "off", "--max-tokens", "3")
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write("Hi\n")
    chat.stdin.flush()
    assert chat.stdout.readline()
    chat.send_signal(signal.SIGTERM)
    _, told = chat.communicate(timeout=PATIENCE_S)
    assert (chat.returncode, told.splitlines()[-1]) == (errors.TERMINATED, "error: terminated")


def test_the_handlers_are_put_back(home: Home) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    run(home.services(home.parrot("Yes.")), "generate", "-p", "Why?")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.skipif(sys.platform != "linux", reason="an address space of bounded size")
@pytest.mark.parametrize("limit_mb", [20, 30, 40, 60])
def test_too_little_memory_is_status_9_and_one_line(home: Home, bundle: Path, limit_mb: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgedec.cli.main", "generate", "-m", str(bundle), "-p", "Hi"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"EDGEDEC_HOME": str(home.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_mb * MB, limit_mb * MB)),
    )
    assert done.returncode == 9, done.stderr
    assert re.fullmatch(r"error: not enough memory.*\n", done.stderr)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        ImportError("x.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        RuntimeError("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : std::bad_alloc"),
    ],
)
def test_every_way_to_run_out_of_memory_is_the_same_error(error: Exception) -> None:
    message, _, status = errors.explain(error)
    assert (message, status) == ("not enough memory", errors.OUT_OF_MEMORY)


def test_other_errors_of_these_kinds_are_not(home: Home) -> None:
    assert errors.explain(ImportError("no module named x"))[2] == errors.INTERNAL
    assert errors.explain(RuntimeError("odd"))[2] == errors.INTERNAL


IN_A_CALLBACK = """
import time, sys
from edgedec.cli import main

sys.unraisablehook = main._once_more

class Fragile:
    def __del__(self):
        raise KeyboardInterrupt

try:
    Fragile()
    time.sleep(60)
except KeyboardInterrupt:
    print("again")
"""


def test_ctrl_c_in_a_callback_comes_again() -> None:
    command = [sys.executable, "-c", IN_A_CALLBACK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr) == ("again\n", "")
