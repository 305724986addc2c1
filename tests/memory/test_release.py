from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
from edgedec.system.memory import mapped_rss_bytes
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
