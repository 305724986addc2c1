"""Giving memory back to the operating system that was needed to start."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

from edgedec.kernels.library import function


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
