from __future__ import annotations

import mmap
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec.memory.release import keep_freed, release_freed, share_heaps


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
from edgedec.memory.release import share_heaps
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


_RELEASES = """
import mmap, onnxruntime
from pathlib import Path
from edgedec.memory.release import ready_beside, release_code
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
held = resident()
{}
print(held - resident(), onnxruntime.get_available_providers())
"""


@pytest.mark.parametrize("call", ["release_code()", "ready_beside(None, 0).join()"])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux is told which pages to drop")
def test_code_that_ran_goes_back_and_runs_again(call: str) -> None:
    command = [sys.executable, "-c", _RELEASES.format(call)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    freed, _, providers = told.partition(" ")
    assert int(freed) > 5_000_000
    assert "CPUExecutionProvider" in providers


_MAPS = """
import mmap, sys
from functools import partial
from pathlib import Path
from edgedec.memory.release import ready_beside
from edgedec.telemetry.process import mapped_rss_bytes
file, name = Path(sys.argv[1]), "weights.bin"
with file.open("rb") as stream:
    piece = partial(mmap.mmap, stream.fileno(), 4 << 20, access=mmap.ACCESS_READ)
    pieces = [piece(offset=at << 20) for at in (0, 4, 8)]
before = mapped_rss_bytes(name)
ready_beside(file, 6 << 20).join()
print(before, mapped_rss_bytes(name))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux maps pages when told")
def test_pages_of_a_file_are_mapped_from_a_byte_on_wherever_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(12 << 20))
    (tmp_path / "other").symlink_to(tmp_path / "weights.bin")
    for name in ("weights.bin", "other"):
        command = [sys.executable, "-c", _MAPS, str(tmp_path / name)]
        before, after = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert (int(before), int(after)) == (0, 6 << 20)
