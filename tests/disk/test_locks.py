"""Locks between processes: alone, shared, and asked for without waiting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgedec.core.errors import StorageError
from edgedec.disk.locks import Share, exclusive, free


@contextmanager
def elsewhere(statement: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that carries out ``statement`` on ``path``, says so, and waits to be killed."""
    code = (
        "import sys; from pathlib import Path; from edgedec.disk.locks import Share, exclusive\n"
        f"path = Path({str(path)!r})\n{statement}\nprint('held', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_that_nobody_holds_is_free_and_leaves_no_file(tmp_path: Path) -> None:
    with free(tmp_path / "a.lock") as mine:
        assert mine
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "statement", ["held = Share(path)", "held = exclusive(path, print); held.__enter__()"]
)
def test_a_lock_of_another_process_is_not_free_until_that_dies(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "a.lock"
    with elsewhere(statement, path) as process:
        with free(path) as mine:
            assert not mine
        assert path.exists()
        process.kill()
        process.wait()
        with free(path) as mine:
            assert mine


def test_many_share_a_lock_and_give_it_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.lock"
    with elsewhere("held = Share(path)", path):
        mine = Share(path)
        mine.release()
        mine.release()
    with free(path) as alone:
        assert alone


def test_a_share_waits_for_whoever_is_alone_there(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    code = (
        "from pathlib import Path; from edgedec.disk.locks import Share\n"
        f"print('asks', flush=True); Share(Path({str(path)!r})); print('has it', flush=True)"
    )
    with exclusive(path, lambda: None):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "asks\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
    assert process.communicate()[0] == "has it\n"
    assert process.returncode == 0
    with free(path) as alone:  # its file is the new one, not the one that was removed
        assert alone


def test_a_folder_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="a file is in the way"):
        Share(tmp_path / "file" / "a.lock")
