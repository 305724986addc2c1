"""Consoles of Windows: Windows Terminal and conhost."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_OUTPUT = -11
"""STD_OUTPUT_HANDLE of ``GetStdHandle``."""
_SEQUENCES = 0x4
"""ENABLE_VIRTUAL_TERMINAL_PROCESSING of ``SetConsoleMode``."""

PIPED: str | None = "utf-8"
"""The encoding of streams that are no terminal; the usual one lacks most of the world's characters."""


def obeys_sequences() -> bool:
    """Let the console obey what text tells it about cursor and colours; return whether it does.

    conhost obeys only where it is asked to, and before Windows 10 not at all.
    """
    calls, mode = ctypes.CDLL("kernel32"), ctypes.c_uint32()
    calls.GetStdHandle.restype = ctypes.c_void_p
    console = ctypes.c_void_p(calls.GetStdHandle(_OUTPUT))
    if not calls.GetConsoleMode(console, ctypes.byref(mode)):
        return False
    return bool(mode.value & _SEQUENCES or calls.SetConsoleMode(console, mode.value | _SEQUENCES))


@contextmanager
def unseen() -> Iterator[None]:
    """Inside, the console does not echo. It never does but while somebody reads a line from it."""
    yield
