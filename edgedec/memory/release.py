"""Giving memory back to the operating system that was needed to start."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

_DONT_NEED = 4
"""MADV_DONTNEED of Linux."""
_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's mallopt."""
_CODE = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9][0-9]* .*\n(?:[A-Z]\S*:.*\n)*?Anonymous: +0 kB$", re.M
)
"""A mapping of code that has a file, and no page that was written to: the file has every byte of it."""


def release_freed() -> bool:
    """Return pages that were freed but kept by the C library's allocator; whether any were (glibc only).

    Building a tokenizer of 262,144 pieces frees some 25 MB that would otherwise count as this process's to
    its end.
    """
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
    return bool(trim and trim(0))


def share_arenas(arenas: int) -> bool:
    """Let all threads allocate from at most so many heaps; whether it took (glibc only).

    Each heap keeps the room of the largest requests that it has seen; by default a thread may have its own.
    """
    if not sys.platform.startswith("linux"):
        return False
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(option and option(_ARENA_MAX, arenas))


def release_code() -> None:
    """Let go of pages of program code (Linux only). Those in use come back from the file when they run next.

    Importing libraries and loading a graph run some 25 MB of code, of which replies need a third.
    """
    if not sys.platform.startswith("linux"):
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    try:
        maps = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for start, end in _CODE.findall(maps):
        advise(int(start, 16), int(end, 16) - int(start, 16), _DONT_NEED)
