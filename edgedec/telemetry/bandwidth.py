"""Memory bandwidth, which bounds decoding: a pass reads all weights once.

The kernel library measures it (``edgedec_read_bandwidth``). This layer lies below the kernels, so the caller
passes the function in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgedec.core.errors import BackendError, Remedy

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
