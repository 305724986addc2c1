"""Memory bandwidth, which bounds decoding: a pass reads all weights once.

The kernel library measures it (``edgedec_read_bandwidth``). This layer lies below the kernels, so the caller
passes the function in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from edgedec.core.errors import BackendError, Remedy, StorageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path

Reader = Callable[[int, int], float]
"""(bytes, threads) -> GB/s of one read through a buffer of that many bytes."""

BUFFER_BYTES = 256 << 20
"""Larger than any last-level cache of a laptop or phone."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """The bandwidth that some threads reach together."""

    threads: int
    gb_per_s: float


def measure(
    read: Reader, threads: Iterable[int], *, size: int = BUFFER_BYTES, repeats: int = 3
) -> list[Bandwidth]:
    """Measure ``repeats`` times with each number of threads; return the best, in ascending order of threads.

    ``size`` is in bytes. The best counts, because other load can only lower a reading. Raises BackendError
    when a reading is not a positive number: the library could not allocate the buffer.
    """
    results = []
    for count in sorted(set(threads)):
        best = max(read(size, count) for _ in range(repeats))
        if not best > 0.0:
            raise BackendError(
                f"could not measure the memory bandwidth with {count} threads",
                hint="is enough memory free?",
                remedy=Remedy("without_bandwidth"),
            )
        results.append(Bandwidth(count, best))
    return results


def keep(found: Iterable[Bandwidth], file: Path) -> None:
    """Write bandwidths to ``file``, the better one where it has some of as many threads already.

    Nothing happens where that fails.
    """
    best = {one.threads: one.gb_per_s for one in kept(file)}
    for one in found:
        best[one.threads] = max(one.gb_per_s, best.get(one.threads, 0.0))
    with suppress(StorageError), atomic_path(file) as temporary:
        temporary.write_text(json.dumps(best), encoding="utf-8", newline="\n")


def kept(file: Path) -> list[Bandwidth]:
    """Return the bandwidths of ``file``; none if it is not there or damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return [Bandwidth(int(threads), float(rate)) for threads, rate in found.items() if rate > 0.0]
    except (OSError, ValueError, TypeError, AttributeError):
        return []


def with_threads(found: Iterable[Bandwidth], threads: int) -> Bandwidth | None:
    """Return the bandwidth of as many threads, or else the best of all; None without any."""
    by_threads = {one.threads: one for one in found}
    return by_threads.get(threads) or max(by_threads.values(), key=lambda one: one.gb_per_s, default=None)
