"""A model cannot drive the terminal; a pipe gets its text untouched; odd streams are no error."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec.cli import errors, screen
from edgedec.core.errors import StorageError
from edgedec.disk.files import storage_errors
from edgedec.models import Store
from tests.cli.support import Home
from tests.fixtures.nightly import every

HOSTILE = "ok\x1b]0;title\x07\x1b[2J\x9b31m\r\ttab\nnext\x7f é🙂"


class Output(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "expected"), [(True, "ok]0;title[2J31m\ttab\nnext é🙂"), (False, HOSTILE)]
)
def test_control_characters(terminal: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(terminal)
    monkeypatch.setattr("sys.stdout", output)
    screen.show(HOSTILE)
    assert output.getvalue() == expected


def edgedec(home: Path, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.quote(sys.executable)} -m edgedec.cli.main {line}"
    variables = {**os.environ, "EDGEDEC_HOME": str(home), **environment}
    return subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, encoding="latin-1", check=False, env=variables
    )


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("list >&-", 7, "error: standard output is closed"),
        ("list 2>&- >&-", 7, ""),
        ("list 2>&-", 0, ""),
        ("chat -m ./none 2>/dev/full", 3, ""),
        ("list >/dev/full", 7, "error: No space left on device: standard output\n"),
        ("list >/dev/full 2>/dev/full", 7, ""),
        ("chat -m ./none <&-", 3, "error: no such file or directory: none\n"),
        ("generate -m ./none -p - <&-", 3, "error: no such file or directory: none\n"),
        ("generate -m ./none <&-", 3, "error: no such file or directory: none\n"),
    ],
)
def test_streams_that_are_closed_or_full(line: str, status: int, said: str, tmp_path: Path) -> None:
    done = edgedec(tmp_path, line)
    assert (done.returncode, done.stdout if status else "") == (status, "")
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == (1 if said else 0)


@pytest.mark.slow
def test_a_reply_of_a_real_model_that_nobody_can_read_is_an_error() -> None:
    """Closed or full, with and without ``--json``; a reply to /dev/null is none."""
    home = Store().home
    if not (home / "models/smollm2-135m").exists():
        pytest.skip("the real model is not installed: edgedec pull smollm2-135m")
    asked = "generate -m smollm2-135m Hi --max-tokens 4"
    for end, said in ((">&-", "standard output is closed"), (">/dev/full", "No space left on device")):
        for line in (f"{asked} {end}", f"{asked} --json {end}"):
            done = edgedec(home, line)
            assert (done.returncode, done.stderr.count("\n")) == (7, 1), line
            assert done.stderr.startswith(f"error: {said}"), line
    assert edgedec(home, f"{asked} >/dev/null").returncode == 0


NOT_UTF8 = (
    "generate -p '{}'", "generate '{}'", "generate -m none '{}'", "chat none '{}'",
    "generate -p Hi --system '{}'", "generate -p Hi --stop '{}'", "generate -p Hi --form '{}'",
)  # fmt: skip


@pytest.mark.parametrize("line", every(3, NOT_UTF8))
def test_a_text_that_is_not_utf8_is_refused(line: str, tmp_path: Path) -> None:
    for text in (b"caf\xe9", b"an old caf\xe9"):
        given = line.format(os.fsdecode(text))
        done = edgedec(tmp_path, given)
        assert (done.returncode, done.stdout) == (2, "")
        assert "not UTF-8 text" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_file_that_may_not_grow_is_named() -> None:
    said = r"talk grew to the size .* \(raise the limit \(ulimit -f\)\)"
    with pytest.raises(StorageError, match=said), storage_errors("talk"):
        raise OSError(errno.EFBIG, "File too large")
    assert errors.explain(OSError(errno.EFBIG, "File too large", "talk"))[2] == 7


def test_output_that_cannot_have_every_character(tmp_path: Path) -> None:
    home = tmp_path / "日本 é"
    Home(home).install()
    shown = edgedec(home, "list", PYTHONIOENCODING="latin-1")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"{tmp_path}/?? é:" in shown.stdout
    listed = edgedec(home, "list --json", PYTHONIOENCODING="latin-1")
    assert listed.stdout.isascii()
    assert json.loads(listed.stdout)["home"] == str(home)
