"""Record a chat with the default model as ``docs/terminal.svg``: ``python docs/record.py``.

The chat runs in a pseudo-terminal, and the picture shows the bytes that it wrote. Turns are fixed and replies
greedy, so the text is the same on every machine; only times differ.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

TURNS = (
    "What is a prime number? Answer in one sentence.",
    "/trace on",
    "Repeat that sentence.",
    "/quit",
)
COLUMNS, ROWS = 100, 60
READY = b"\x1b[?2004h"
"""Bracketed paste is switched on each time the prompt waits for a turn."""
LIMIT_S = 300.0
"""Longest wait for one turn: the first one may fetch the model."""
QUIET_S = 0.4
"""The prompt is drawn once nothing more arrives for this long."""
FONTS = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
OUTPUT = Path(__file__).with_name("terminal.svg")

_CONTROL = re.compile(
    r"\x1b\[(?P<args>[?\d;]*)(?P<verb>[A-Za-z])|(?P<plain>[\r\n\b])|(?P<char>[^\x00-\x1f\x7f])"
)


class Screen:
    """Enough of a terminal for a prompt with line editing: cursor moves, erasing and colours."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], tuple[str, str]] = {}
        """(row, column): the SGR arguments and the character."""
        self._row = self._column = 0
        self._style = ""

    def feed(self, text: str) -> None:
        """Obey control sequences and write characters; unknown sequences are left out."""
        for match in _CONTROL.finditer(text):
            if (char := match["char"]) is not None:
                self._put(char)
            elif (plain := match["plain"]) is not None:
                self._move(plain)
            else:
                self._obey(match["verb"], match["args"])

    def lines(self) -> list[str]:
        """The rows with their colours as SGR sequences, without empty ones at the end."""
        last = max((row for row, _ in self._cells), default=-1)
        return [self._line(row) for row in range(last + 1)]

    def _put(self, char: str) -> None:
        if self._column == COLUMNS:
            self._row, self._column = self._row + 1, 0
        self._cells[self._row, self._column] = (self._style, char)
        self._column += 1

    def _move(self, plain: str) -> None:
        if plain == "\n":
            self._row += 1
        self._column = max(self._column - 1, 0) if plain == "\b" else 0 if plain == "\r" else self._column

    def _obey(self, verb: str, args: str) -> None:
        count = int(args) if args.isdigit() else 1
        if verb == "m":
            self._style = "" if args in ("", "0") else f"{self._style};{args}".strip(";")
        elif verb in "AB":
            self._row = max(self._row + (count if verb == "B" else -count), 0)
        elif verb in "CD":
            self._column = max(self._column + (count if verb == "C" else -count), 0)
        elif verb in "JK":
            here = self._row, self._column
            kept = [at for at in self._cells if at < here or (verb == "K" and at[0] > here[0])]
            self._cells = {at: self._cells[at] for at in kept}

    def _line(self, row: int) -> str:
        columns = [column for at, column in self._cells if at == row]
        cells = [self._cells.get((row, column), ("", " ")) for column in range(max(columns, default=-1) + 1)]
        return "".join(f"\x1b[0{';' if style else ''}{style}m{char}" for style, char in cells).rstrip()


class Recording:
    """A command in a pseudo-terminal, and all bytes that it wrote."""

    def __init__(self, command: list[str]) -> None:
        self.written = b""
        pid, self._terminal = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm-256color", PYTHONUNBUFFERED="1")
            os.execv(command[0], command)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def type(self, turn: str) -> None:
        os.write(self._terminal, turn.encode() + b"\r")

    def wait(self, since: int) -> None:
        """Read until the prompt has been drawn, or the command has ended. Raises TimeoutError."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            if select.select([self._terminal], [], [], QUIET_S)[0]:
                try:
                    part = os.read(self._terminal, 1 << 16)
                except OSError:  # Linux: the other end was closed
                    return
                self.written += part
                if b"\x1b[6n" in part:  # the line editor asks where the cursor is
                    os.write(self._terminal, b"\x1b[1;1R")
            elif READY in self.written[since:]:
                return
        raise TimeoutError(f"no prompt within {LIMIT_S:.0f} s")


def record(turns: tuple[str, ...] = TURNS) -> list[str]:
    """The rows of a terminal after ``edgedec chat`` had these turns."""
    recording = Recording([str(Path(sys.executable).with_name("edgedec")), "chat"])
    recording.wait(0)
    for turn in turns:
        since = len(recording.written)
        recording.type(turn)
        recording.wait(since)
    screen = Screen()
    screen.feed(recording.written.decode("utf-8", errors="replace"))
    return ["\x1b[0;1m$ edgedec chat\x1b[0m", *screen.lines()]


def svg(lines: list[str]) -> str:
    """The rows as a picture with text in it; no font is loaded from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)
    frame = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    frame = frame.replace("Fira Code, monospace", FONTS)
    return console.export_svg(title="edgedec chat", theme=MONOKAI, code_format=frame, unique_id="chat")


if __name__ == "__main__":
    OUTPUT.write_text(svg(record()) + "\n", encoding="utf-8")
