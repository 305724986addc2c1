"""Prompts and texts from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bench.harness.texts import read_kinds, read_prompts, read_text
from edgedec.core.errors import BadFileError, NotFoundError


def test_lines_of_text_and_of_json(tmp_path: Path) -> None:
    plain = tmp_path / "prompts.txt"
    plain.write_text("one\n\n  \ntwo\n", encoding="utf-8")
    assert read_prompts(plain) == ["one", "two"]
    assert read_text(plain) == "one\n\n  \ntwo\n"
    lines = tmp_path / "prompts.jsonl"
    lines.write_text('"a"\n{"question": "b", "answer": "x"}\n{"turns": ["c", "d"]}\n{"prompt": "e"}\n')
    assert read_prompts(lines) == ["a", "b", "c", "e"]
    assert read_text(lines) == "a\n\nb\n\nc\n\ne"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no prompts"),
        (b'"a"\n{', "line 2: not JSON"),
        (b'{"turns": []}', "line 1: no prompt"),
        (b'{"other": "a"}', "line 1: no prompt"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_bad_files(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadFileError, match=words):
        read_prompts(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        read_text(tmp_path / "none.txt")


def test_lines_may_state_a_kind(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    lines = [
        '{"kind": "maths", "prompt": "one"}',
        '{"category": "chat ", "turns": ["two", "three"]}',
        '"four"',
        '{"prompt": "five", "kind": 7}',
        '{"prompt": "six", "kind": "a\\nb"}',
        '{"prompt": "seven", "kind": "' + "x" * 30 + '"}',
    ]
    file.write_text("\n".join(lines))
    assert read_kinds(file) == {"one": "maths", "two": "chat"}
    plain = tmp_path / "prompts.txt"
    plain.write_text("one\ntwo\n")
    assert read_kinds(plain) == {}
