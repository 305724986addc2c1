"""Memory from the system: by the C library's allocator, which keeps what is freed, and in whole pages."""

from __future__ import annotations

import ctypes
import mmap
import sys
from contextlib import suppress

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1
"""M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's mallopt."""
_LARGEST_IN_HEAP = 32 * 1024 * 1024
_MOST_INT = 2**31 - 1

GIVES_BACK = sys.platform != "win32"
"""Whether pages can be given back while others stay."""


def release_freed() -> bool:
    """Return pages that were freed but kept by the allocator; whether any were (glibc and macOS).

    Building a tokenizer of 262,144 pieces frees some 25 MB that would otherwise count as this process's to
    its end.
    """
    if sys.platform == "win32":
        return False
    library = ctypes.CDLL(None)
    if sys.platform == "darwin":
        relieve = library.malloc_zone_pressure_relief
        relieve.restype = ctypes.c_size_t
        return bool(relieve(None, ctypes.c_size_t(0)))
    trim = getattr(library, "malloc_trim", None)  # other C libraries have none
    return bool(trim and trim(0))


def share_heaps(heaps: int, largest: int) -> bool:
    """Let all threads allocate from at most so many heaps, and blocks of ``largest`` bytes from none.

    Return whether it took (glibc only). By default a thread may have a heap of its own, and once a large
    block was freed, later ones lie in the heaps: small ones between them keep their room from the system.
    """
    return _options((_ARENA_MAX, heaps), (_MMAP_THRESHOLD, largest))


def keep_freed() -> bool:
    """Keep what is freed for the next blocks; return whether it took (glibc only).

    By default large blocks come from the system and go back to it, and each page of the next one is cleared.
    """
    return _options((_MMAP_THRESHOLD, _LARGEST_IN_HEAP), (_TRIM_THRESHOLD, _MOST_INT))


def _options(*pairs: tuple[int, int]) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(option and all(option(*pair) for pair in pairs))


def private_pages(size: int) -> mmap.mmap:
    """Return ``size`` bytes of zeros in whole pages. Raises the error of ``mmap``."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if sys.platform == "linux":
        # A huge page would commit 2 MiB for the first token of every head; kernels without them refuse.
        with suppress(OSError):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return pages


def give_back(pages: mmap.mmap, begin: int, size: int) -> None:
    """Return pages to the system, where it takes them; their contents are undefined then."""
    if sys.platform != "win32":
        pages.madvise(mmap.MADV_DONTNEED, begin, size)
