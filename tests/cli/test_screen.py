"""A model cannot drive the terminal; a pipe gets its text untouched."""

from __future__ import annotations

import io

import pytest

from edgedec.cli import screen

HOSTILE = "ok\x1b]0;title\x07\x1b[2J\x9b31m\r\ttab\nnext\x7f é🙂"


class Output(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "expected"), [(True, "ok]0;title[2J31m\ttab\nnext é🙂"), (False, HOSTILE)]
)
def test_control_characters(terminal: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(terminal)
    monkeypatch.setattr("sys.stdout", output)
    screen.show(HOSTILE)
    assert output.getvalue() == expected
