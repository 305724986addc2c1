"""``edgedec`` in a pseudo-terminal that a terminal emulator (pyte) reads: what a user would see."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from typing import Any

import pyte

QUIET_S = 0.3


class Emulator:
    """A child process on a terminal of ``columns`` times ``rows``; ``screen`` is what the terminal shows.

    ``child`` runs in the forked process, with the terminal as its standard streams.
    """

    def __init__(
        self, child: Callable[[], None], columns: int = 80, rows: int = 24, **variables: str
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=1)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            self._run(child, variables)
        self._set_size(columns, rows)

    @staticmethod
    def _run(child: Callable[[], None], variables: dict[str, str]) -> None:
        status = 70
        try:
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", **variables})
            time.sleep(0.1)  # until the window has its size
            child()
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        finally:
            os._exit(status)

    def type(self, keys: str | bytes) -> None:
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._set_size(columns, rows)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float = 0.1) -> bool:
        """Take what the child has written. Return False when it has closed the terminal."""
        if select.select([self._master], [], [], seconds)[0]:
            try:
                part = os.read(self._master, 1 << 16)
            except OSError:
                return False
            self.raw += part
            self._stream.feed(part)
        return True

    def wait_for(self, words: str, timeout_s: float = 60.0) -> None:
        """Read until a line on the screen has ``words``."""
        self.wait_until(lambda: any(words in line for line in self.lines()), repr(words), timeout_s)

    def wait_until(self, shown: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Read until the screen shows it."""
        deadline = time.monotonic() + timeout_s
        while not shown():
            assert time.monotonic() < deadline, f"no {what} in:\n" + "\n".join(self.lines())
            if not self.read():
                time.sleep(0.05)

    def finish(self, timeout_s: float = 60.0) -> int:
        """Read to the end; return the exit status."""
        deadline = time.monotonic() + timeout_s
        while self.read():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self._master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def rows(self) -> list[Any]:
        """Cells of all rows from the first line on, those that have scrolled away too."""
        kept = [self.screen.buffer[row] for row in range(self.screen.lines)]
        return [*self.screen.history.top, *kept]

    def lines(self) -> list[str]:
        """Text of all rows, without blanks at their ends."""
        found = [
            "".join(row[column].data for column in range(self.screen.columns)).rstrip() for row in self.rows()
        ]
        while found and not found[-1]:
            found.pop()
        return found
