"""Start-up, errors, help, doctor and progress."""

from __future__ import annotations

import io
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import edgedec
from edgedec.cli import errors, helpdoc, progress
from edgedec.cli.app import COMMANDS
from edgedec.cli.services import Services
from edgedec.core.errors import BackendError, BadFileError
from tests.cli.support import Home, assert_one_line, run

ROOT = Path(__file__).resolve().parents[2]


def test_help_lists_every_command() -> None:
    shown = run(None, "--help").stdout
    assert run(None).stdout == shown
    for name, summary in COMMANDS.items():
        assert f"{name:<8}  {summary}" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_examples(name: str) -> None:
    shown = run(None, name, "--help").stdout
    assert f"Usage: edgedec {name}" in shown
    assert f"  edgedec {name}" in shown.partition("Examples:")[2]


def test_the_help_in_the_documentation_is_up_to_date() -> None:
    for file, text in helpdoc.documents().items():
        written = (ROOT / "docs" / file).read_text(encoding="utf-8")
        assert written == text, "run: python -m edgedec.cli.helpdoc docs"


def test_version() -> None:
    assert run(None, "--version").stdout == f"edgedec, version {edgedec.__version__}\n"


def test_an_unknown_command_is_one_line() -> None:
    assert_one_line(run(None, "frobnicate"), 2, "no command named 'frobnicate'", "(`edgedec --help` shows")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("gen", "did you mean generate"),
        ("lsit", "did you mean list"),
        ("install", "did you mean pull"),
        ("measure", "did you mean bench report"),
        ("switch", "did you mean bench switch"),
        ("server", "did you mean serve"),
        ("ps", "no model stays in memory"),
        ("c", "did you mean chat or check"),
        ("plna", "did you mean plan"),
        ("SmolLM2-135M", "is a model, not a command (as in `edgedec chat SmolLM2-135M`"),
        ("llama3.2:1b", "is a model, not a command (as in `edgedec chat llama3.2:1b`"),
        ("Owner/Repo:Q8_0", "is a model, not a command (as in `edgedec chat Owner/Repo:Q8_0`"),
    ],
)
def test_a_command_that_is_nearly_right_gets_those_that_are_near(typed: str, words: str) -> None:
    assert_one_line(run(None, typed), 2, words, "`edgedec --help` shows all")


def test_starting_imports_nothing_heavy() -> None:
    code = (
        "import sys; from edgedec.cli.app import app; from edgedec.cli import generate;"
        "heavy = 'rich jinja2 httpx onnx gguf huggingface_hub prompt_toolkit onnxruntime tokenizers'.split();"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (BadFileError("a\nb", hint="c\n d"), 4, "error: a b (c d)"),
        (BackendError("it broke"), 9, "error: it broke"),
        (MemoryError(), 9, "error: not enough memory (a smaller --context or a smaller model needs less)"),
        (OSError(13, "Permission denied", "/x"), 1, "error: Permission denied: /x"),
        (OSError(28, "No space left on device"), 7, "error: No space left on device: standard output"),
        (
            ImportError("DLL load failed while importing onnxruntime_pybind11_state: not found"),
            9,
            "error: DLL load failed while importing onnxruntime_pybind11_state: not found"
            " (install Microsoft's Visual C++ Redistributable)",
        ),
        (ValueError("odd"), 70, "error: internal error: ValueError: odd (EDGEDEC_DEBUG=1 shows where)"),
    ],
)
def test_any_error_is_one_line_and_a_status(
    error: Exception, status: int, line: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    services = Services(store=fail)  # type: ignore[arg-type]
    monkeypatch.delenv("EDGEDEC_DEBUG", raising=False)
    result = run(services, "list")
    assert (result.exit_code, result.stdout, result.stderr) == (status, "", line + "\n")
    with_trace = run(services, "list", env={"EDGEDEC_DEBUG": "1"})
    assert with_trace.exit_code == status
    assert "Traceback" in with_trace.stderr
    assert with_trace.stderr.endswith(line + "\n")


def test_ctrl_c_is_130_without_words() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    result = run(Services(store=interrupt), "list")  # type: ignore[arg-type]
    assert (result.exit_code, result.stdout, result.stderr.strip()) == (errors.INTERRUPTED, "", "")


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "edgedec.cli.main", "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (errors.BROKEN_PIPE, "")


def test_plain_progress_is_quiet_at_first_and_then_occasional(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = itertools.count()
    lines = progress.Lines(clock=lambda: next(seconds) / 2)
    for done in range(0, 21):
        lines("download", done * 5_000_000, 100_000_000)
    lines("verify", 100_000_000, 100_000_000)
    assert capsys.readouterr().err.splitlines() == [
        "downloading: 10.0 MB of 100.0 MB (10%)",
        "downloading: 60.0 MB of 100.0 MB (60%)",
        "downloading: 100.0 MB of 100.0 MB (100%)",
    ]


def test_bars_appear_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    now = iter([0.0, 0.5, 2.0, 2.1])
    with progress.Bars(clock=lambda: next(now)) as bars:
        bars("download", 0, 1000)
        bars("download", 10, 1000)
        assert screen.getvalue() == ""
        bars("download", 600, 1000)
        bars("download", 1000, 1000)
    assert "downloading" in screen.getvalue()
    assert "1.0/1.0 kB" in screen.getvalue()


def test_the_signal_handler_is_put_back(home: Home) -> None:
    before = signal.getsignal(signal.SIGINT)
    run(home.services(home.parrot("Yes.")), "generate", "-p", "Why?")
    assert signal.getsignal(signal.SIGINT) is before


class Interrupting:
    """Ctrl-C comes while a class is being made."""

    def __set_name__(self, owner: type, name: str) -> None:
        raise KeyboardInterrupt


def make_a_class() -> None:
    type("Made", (), {"attribute": Interrupting()})


def import_a_library() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        raise ImportError("numpy.core.multiarray failed to import") from error


@pytest.mark.parametrize("work", [make_a_class, import_a_library])
def test_ctrl_c_in_another_error_is_quiet(work: Callable[[], None], home: Home) -> None:
    result = run(Services(store=work), "list")  # type: ignore[arg-type]
    assert (result.exit_code, result.stdout, result.stderr) == (errors.INTERRUPTED, "", "")
