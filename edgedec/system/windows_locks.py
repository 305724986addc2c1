"""Locks on open files, as Windows has them: of bytes of a file, which it releases with the file."""

from __future__ import annotations

import os
import secrets
import time
from importlib import import_module

LOCKS_FOLDERS = False
"""Whether a folder can be opened and locked."""
_POLL_S = 0.1
_SHARES = 1 << 16
"""Bytes that may be locked: one for a share, all of them to be alone."""


def lock(descriptor: int, *, share: bool = False, wait: bool = False) -> bool:
    """Lock an open file, alone or as one of many; return whether nobody else holds it.

    ``wait``: until that is so. portalocker would lock shares by pywin32, a library of some megabytes.
    """
    calls = import_module("msvcrt")  # Windows alone has it
    while True:
        os.lseek(descriptor, secrets.randbelow(_SHARES) if share else 0, os.SEEK_SET)
        try:
            calls.locking(descriptor, calls.LK_NBLCK, 1 if share else _SHARES)
        except OSError:
            if not wait:
                return False
            time.sleep(_POLL_S)
        else:
            return True
