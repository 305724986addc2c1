from __future__ import annotations

import mmap
import platform
import sys
from pathlib import Path

import pytest

from edgedec.memory.release import release_code, release_freed


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux is told which pages to drop")
def test_code_that_ran_goes_back_and_runs_again() -> None:
    import onnxruntime

    held = resident()
    release_code()
    assert resident() < held - 5_000_000
    assert onnxruntime.get_available_providers()
