"""Lines beside the work: whole words on a terminal, one line for all percentages, plain lines elsewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import click
import pytest

from edgedec.cli import errors, plan, progress, screen

LICENCE = "smollm2-135m, 98.4 MB; licence: Apache-2.0, https://www.apache.org/licenses/LICENSE-2.0"


Seen = Callable[[], str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Seen:
    """Standard error as a terminal of 80 columns, before the first notice; returns what it shows."""
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: True)
    monkeypatch.setattr(screen, "window", lambda stream: (80, 24))
    monkeypatch.setattr(progress, "_shown", progress._Shown())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return lambda: capsys.readouterr().err


def test_a_terminal_gets_whole_words(terminal: Seen) -> None:
    progress.notice(LICENCE)
    first, second = terminal().splitlines()
    assert first.endswith("Apache-2.0,")
    assert second == "https://www.apache.org/licenses/LICENSE-2.0"


def test_a_percentage_takes_the_place_of_the_one_before(terminal: Seen) -> None:
    for line in ("measuring, once", "measuring: 20%", "measuring: 99%", "ready", "measuring: 10%"):
        progress.notice(line)
    assert terminal() == (
        "measuring, once\nmeasuring: 20%\n\x1b[A\x1b[2Kmeasuring: 99%\nready\nmeasuring: 10%\n"
    )


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_a_terminal_without_control_sequences_gets_every_line(
    name: str, value: str, terminal: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    for line in ("measuring: 20%", "measuring: 99%", LICENCE):
        progress.notice(line)
    *first, licence, address = terminal().splitlines()
    assert first == ["measuring: 20%", "measuring: 99%"]
    assert f"{licence} {address}" == LICENCE


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_an_error_keeps_its_words_whole_and_its_colour(
    columns: int, terminal: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "window", lambda stream: (columns, 24))
    message, hint = "no model named " + "nothing " * 12 + "here", "`edgedec list --all` shows the names " * 3
    monkeypatch.setattr(screen, "colours", lambda: True)
    errors.show(message, hint)
    coloured = terminal()
    assert coloured.startswith("\x1b[31merror: no model")
    assert re.search(r"here\x1b\[0m\s\(`edgedec", coloured)
    rows = click.unstyle(coloured).splitlines()
    assert max(map(len, rows)) < columns
    assert " ".join(rows).split() == f"error: {message} ({hint.strip()})".split()


def test_a_pipe_gets_every_line_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("measuring: 20%", "measuring: 99%", LICENCE):
        progress.notice(line)
    assert capsys.readouterr().err == f"measuring: 20%\nmeasuring: 99%\n{LICENCE}\n"


def test_a_row_of_a_plan_goes_on_below_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    monkeypatch.setattr(screen, "window", lambda stream: (30, 24))
    row = plan._row("process  86.0 MB  ", "Python and libraries")
    assert row.splitlines() == ["process  86.0 MB  Python and", " " * 18 + "libraries"]
