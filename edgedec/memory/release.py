"""Giving memory back to the operating system that was needed to start."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

from edgedec.kernels.library import function

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1
"""M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's mallopt."""
_LARGEST_IN_HEAP = 32 * 1024 * 1024
_MOST_INT = 2**31 - 1


def release_freed() -> bool:
    """Return pages that were freed but kept by the C library's allocator; whether any were (glibc only).

    Building a tokenizer of 262,144 pieces frees some 25 MB that would otherwise count as this process's to
    its end.
    """
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
    return bool(trim and trim(0))


def share_heaps(heaps: int, largest: int) -> bool:
    """Let all threads allocate from at most so many heaps, and blocks of ``largest`` bytes from none.

    Return whether it took (glibc only). By default a thread may have a heap of its own, and once a large
    block was freed, later ones lie in the heaps: small ones between them keep their room from the system.
    """
    if not sys.platform.startswith("linux"):
        return False
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(option and option(_ARENA_MAX, heaps) and option(_MMAP_THRESHOLD, largest))


def keep_freed() -> bool:
    """Keep what is freed for the next blocks; return whether it took (glibc only).

    By default large blocks come from the system and go back to it, and each page of the next one is cleared.
    """
    if not sys.platform.startswith("linux"):
        return False
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(option and option(_MMAP_THRESHOLD, _LARGEST_IN_HEAP) and option(_TRIM_THRESHOLD, _MOST_INT))


def release_code() -> None:
    """Let go of pages of program code (Linux only). Those in use come back from the file when they run next.

    Importing libraries and loading a graph run some 25 MB of code, of which replies need a third.
    """
    function("edgedec_release_code")()


def ready_beside(weights: Path | None, first: int) -> threading.Thread:
    """Do as ``release_code``, then map a file's pages from byte ``first`` on, in a thread (Linux only).

    The one takes some milliseconds before a reply, and the first pass waits for each page that is not mapped.
    """

    def ready() -> None:
        release_code()
        if weights:
            function("edgedec_map_ahead")(os.fsencode(weights), ctypes.c_uint64(first))

    thread = threading.Thread(target=ready, name="ready", daemon=True)
    thread.start()
    return thread
