"""Prompts and other texts with a byte order mark: it is no part of them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from edgedec.bench.harness.texts import read_prompts, read_text
from edgedec.cli.errors import explain
from edgedec.cli.options import read_text_file
from edgedec.cli.text_input import Unbounded, piped_turns, prompt_lines, read_prompt

MARK = b"\xef\xbb\xbf"


def feed(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(MARK + b"hello", monkeypatch)
    assert read_prompt("-", Unbounded()) == "hello"
    feed(MARK + b"one\n" + MARK + b"two\n", monkeypatch)
    assert list(piped_turns(Unbounded())) == ["one", "\ufefftwo"], "elsewhere it is a character"


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(MARK + b"one\ntwo\n")
    assert [line.text for line in prompt_lines(file)] == ["one", "two"]
    assert read_text_file(file, "chat template") == "one\ntwo\n"
    assert read_prompts(file) == ["one", "two"]
    assert read_text(file) == "one\ntwo\n"


def test_a_name_that_is_not_utf_8_is_no_internal_error() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        "caf\udce9".encode()
    assert explain(caught.value) == ("the name of a file or a folder is not UTF-8", "rename it", 1)
