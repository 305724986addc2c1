from __future__ import annotations

import mmap
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec.system.allocator import keep_freed, release_freed, share_heaps


def resident() -> int:
    """Bytes in physical memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory and can be told")
def test_freed_memory_goes_back() -> None:
    blocks = [bytearray(1000) for _ in range(60_000)]
    last = bytearray(1000)  # keeps the end of the heap in use
    held = resident()
    del blocks
    release_freed()
    assert resident() < held - 20_000_000
    assert len(last) == 1000


def test_other_systems_have_nothing_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert release_freed() is False
    assert share_heaps(2, 1 << 20) is False
    assert keep_freed() is False


_THREADS_ALLOCATE = """
import ctypes, threading
from edgedec.system.allocator import share_heaps
share_heaps(1, 1 << 20)
ready = threading.Barrier(9)
def allocate():
    held = [bytes(4000) for _ in range(100)]
    ready.wait(20)
    ready.wait(20)
threads = [threading.Thread(target=allocate) for _ in range(8)]
for one in threads:
    one.start()
ready.wait(20)
library = ctypes.CDLL(None)
library.malloc_info(0, ctypes.c_void_p.in_dll(library, "stdout"))
library.fflush(None)
ready.wait(20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_threads_share_a_heap() -> None:
    own = _THREADS_ALLOCATE.replace("share_heaps(1, 1 << 20)", "")
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True) for code in (_THREADS_ALLOCATE, own)
    ]
    shared, alone = (run.stdout.count(b"<heap nr=") for run in runs)
    assert shared == 1
    assert alone > 1
