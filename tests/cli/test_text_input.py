"""Prompts and other texts with a byte order mark: it is no part of them."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from edgedec.bench.harness.texts import read_prompts, read_text
from edgedec.cli.errors import explain
from edgedec.cli.options import read_text_file
from edgedec.cli.text_input import Unbounded, piped_turns, prompt_lines, read_prompt
from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.tiny_gguf import write_tiny

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


@pytest.mark.parametrize(
    "arguments", [("generate", "-p", "x", "-m", "{}"), ("pull", "{}"), ("plan", "-m", "{}")]
)
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_model_whose_name_is_not_utf_8(
    kind: str, arguments: tuple[str, ...], home: Home, tmp_path: Path
) -> None:
    model = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.gguf"))
    if kind == "file":
        model.write_bytes(b"GGUF")
    else:
        model.mkdir()
    result = run(home, *(str(model) if one == "{}" else one for one in arguments))
    assert_one_line(result, 2, r"caf\udce9.gguf is not UTF-8 (rename it)")


def test_an_export_into_a_name_that_is_not_utf_8(home: Home, tmp_path: Path) -> None:
    source = write_tiny(tmp_path / "a.gguf", "llama")
    out = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    result = run(home, "export", str(source), "-o", out)
    assert_one_line(result, 2, "is not UTF-8 (rename it)")


@pytest.mark.parametrize("kind", ["pipe", "adapter"])
def test_what_is_no_model_says_what_it_is(kind: str, home: Home, tmp_path: Path) -> None:
    model = tmp_path / "a"
    if kind == "pipe":
        os.mkfifo(model)
    else:
        model.mkdir()
        (model / "adapter_config.json").write_text("{}", encoding="utf-8")
    result = run(home, "generate", "-p", "x", "-m", str(model))
    words = "is a pipe or a device" if kind == "pipe" else "holds an adapter of peft, and no model"
    assert_one_line(result, 4 if kind == "pipe" else 2, words)


def test_a_name_that_is_not_utf_8_is_no_internal_error() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        "caf\udce9".encode()
    assert explain(caught.value) == ("the name of a file or a folder is not UTF-8", "rename it", 1)
