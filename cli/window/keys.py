"""Keys that are typed while a reply streams: kept for the next turn, and not shown amid the text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unseen() -> Iterator[None]:
    """Inside, the terminal does not echo, and Ctrl-C drops no keys. Does nothing where that cannot be set."""
    try:
        import termios

        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (ImportError, OSError, ValueError, termios.error):
        yield
        return
    quiet = [*before]
    quiet[3] = quiet[3] & ~termios.ECHO | termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
