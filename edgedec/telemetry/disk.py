"""How fast a disk reads pieces of a file, several at once and past the system's cache."""

from __future__ import annotations

import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from edgedec.core.errors import StorageError
from edgedec.system.files import open_uncached, read_at

_MOST_BYTES = 96 << 20
_FEWEST = 8
_ALIGNMENT = 4096


def read_rate(path: Path, size: int, lanes: int = 4) -> float:
    """Read pieces of ``size`` bytes from places at random, a few tenths of a second; return bytes per second.

    Where the file system has no reads past the cache, the rate may be that of memory. Raises StorageError.
    """
    try:
        file = open_uncached(path)
        try:
            return _rate(file, size, lanes)
        finally:
            os.close(file)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error


def _rate(file: int, size: int, lanes: int) -> float:
    places = max(os.fstat(file).st_size - size, 0) // _ALIGNMENT + 1
    count = max(_MOST_BYTES // size, _FEWEST)
    starts = _ALIGNMENT * np.random.default_rng(0).integers(0, places, count)
    shares = [starts[lane::lanes].tolist() for lane in range(lanes)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(lanes) as pool:
        done = sum(pool.map(lambda share: _read(file, share, size), shares))
    return done / max(time.perf_counter() - begun, 1e-9)


def _read(file: int, starts: list[int], size: int) -> int:
    done = 0
    with mmap.mmap(-1, -(-size // _ALIGNMENT) * _ALIGNMENT) as room:  # aligned, as such reads need it
        for start in starts:
            done += read_at(file, room, start)
    return done
