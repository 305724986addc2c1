"""common/os with sanitizers: files, mappings, reads past the cache, pages and threads, with no report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.sanitizers import program, watched

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_calls_of_the_system_have_no_report(tmp_path: Path, sanitizers: str) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    done = watched(program("os_host", tmp_path, sanitizers, "common/mapped_file.cc"), folder)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]
    assert done.stderr == ""
