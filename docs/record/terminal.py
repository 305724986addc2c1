"""A command in a pseudo-terminal, and the screen that it draws."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from pathlib import Path

import pyte
from pyte import graphics
from pyte.screens import Char

from docs.record.scenes import END, PROMPT, Scene
from edgedec.disk.home import default_home

READY = "\x1b[?2004h"
"""Bracketed paste is switched on each time the chat waits for a line."""
LIMIT_S = 300.0
"""Longest wait for one moment: the first may fetch a model."""
QUIET_S = 0.5
"""The screen is complete once nothing more arrives for this long."""
PATIENCE_S = 10.0
"""Time that a command has to end after its window was closed."""
HISTORY_LINES = 1000
HOME = ".cache/edgedec"
"""The home of a recorded command, in a folder of its own: no picture shows a path of the caller."""
ELSEWHERE = ("COLUMNS", "LINES", "NO_COLOR", "COLORTERM")
"""Variables that describe the terminal of the caller."""

_SEQUENCE = re.compile(r"\x1b\[[0-9;?>]*[ -/]*[@-~]|\x1b[@-_]|\r")

Line = Mapping[int, Char]
"""Characters by column."""


class Screen(pyte.HistoryScreen):
    """A terminal that shows faint text: pyte does not know it, so the flag for blinking text carries it."""

    def __init__(self, columns: int, rows: int, answer: int) -> None:
        super().__init__(columns, rows, HISTORY_LINES)
        self._answer = answer

    def select_graphic_rendition(self, *attrs: int) -> None:
        super().select_graphic_rendition(*attrs)
        if attrs == (22,):
            super().select_graphic_rendition(25)

    def write_process_input(self, data: str) -> None:
        """Answer the program that asks where the cursor is."""
        os.write(self._answer, data.encode())

    def written(self) -> list[Line]:
        """All lines, those that scrolled away too; no empty ones at the end."""
        lines: list[Line] = [*self.history.top, *(self.buffer[row] for row in range(self.lines))]
        while lines and not any(char.data.strip() for char in lines[-1].values()):
            lines.pop()
        return lines


graphics.TEXT[2] = "+blink"


class Recording:
    """A running command. ``screen`` is drawn while a method waits."""

    def __init__(
        self, command: str, columns: int, rows: int, environment: Mapping[str, str], folder: str | None = None
    ) -> None:
        self._terminal, inner = pty.openpty()
        termios.tcsetwinsize(inner, (rows, columns))
        self.screen = Screen(columns, rows, self._terminal)
        self._stream = pyte.ByteStream(self.screen)
        self._stream.feed(b"\x1b[1m$ " + command.encode() + b"\x1b[0m\r\n")
        self._since = ""
        """Text since the last keys."""
        # The first terminal that a session leader opens becomes its controlling one, which Ctrl-C needs.
        name, line = os.ttyname(inner), shlex.join([*program(), *shlex.split(command)[1:]])
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line} <{name} >{name} 2>{name}"],
            start_new_session=True,
            cwd=folder,
            env=surroundings(environment),
        )
        self._inner = inner  # kept open: a terminal that nobody has open yet cannot be read

    @property
    def pid(self) -> int:
        return self._process.pid

    def press(self, keys: str) -> None:
        self._since = ""
        os.write(self._terminal, keys.encode())

    def wait(self, moment: str) -> None:
        """Read until that moment. Raises TimeoutError, and EOFError if the command ends before."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            ended = self._process.poll() is not None  # asked first: the last text comes before the end
            quiet = not self._read()
            if moment not in (END, PROMPT) and re.search(moment, _SEQUENCE.sub("", self._since)):
                return
            if quiet and moment == PROMPT and READY in self._since:
                return
            if quiet and ended:
                if moment == END and self._process.returncode == 0:
                    return
                raise EOFError(f"ended with status {self._process.returncode} before {moment}")
        raise TimeoutError(f"{moment} did not come within {LIMIT_S:.0f} s")

    def close(self) -> None:
        """End the command, if it runs, as a closed window does."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGHUP)
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        os.close(self._inner)
        os.close(self._terminal)

    def _read(self) -> bool:
        if not select.select([self._terminal], [], [], QUIET_S)[0]:
            return False
        part = os.read(self._terminal, 1 << 16)
        self._since += part.decode("utf-8", errors="replace")
        self._stream.feed(part)
        return True


def surroundings(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a recorded command, the same in every terminal of the caller."""
    kept = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    return {**kept, "TERM": "xterm-256color", **own}


def program() -> list[str]:
    """``edgedec`` of this interpreter."""
    return [sys.executable, "-m", "edgedec.cli.main"]


def record(scene: Scene, columns: int) -> list[Line]:
    """The lines of a scene's terminal at its last moment."""
    with tempfile.TemporaryDirectory() as folder:
        installed, home = default_home().absolute(), Path(folder, HOME)
        home.parent.mkdir()
        if not scene.fresh_home and installed.exists():
            home.symlink_to(installed, target_is_directory=True)
        recording = Recording(scene.command, columns, scene.rows, {"EDGEDEC_HOME": HOME}, folder)
        try:
            for press in scene.presses:
                recording.wait(press.when)
                recording.press(press.keys)
            recording.wait(scene.until)
            return recording.screen.written()
        finally:
            recording.close()
