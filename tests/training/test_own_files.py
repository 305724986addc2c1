"""Files that an index is made of: found by name, folder and pattern, and left out for a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec.core.errors import NotFoundError
from edgedec.training.own_files import MOST_BYTES, own_texts


def put(folder: Path, **files: str | bytes) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def names(folder: Path, *named: str) -> list[str]:
    found = own_texts(named or (str(folder),))
    return [one.path.relative_to(folder.resolve()).as_posix() for one in found if not one.why_not]


def test_a_folder_has_all_its_texts_but_those_that_git_ignores(tmp_path: Path) -> None:
    put(tmp_path, a="1", sub__b="2", sub__c="3", out__d="4", sub__e="5")
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "sub" / ".gitignore").write_text("*\n!b\n")
    expected = [".gitignore", "a", "sub/b"]
    assert names(tmp_path) == expected  # no repository
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert names(tmp_path) == expected
    (tmp_path / "sub" / "inner").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path / "sub" / "inner")], check=True)
    put(tmp_path, sub__inner__f="6", plain__inner__g="7")
    subprocess.run(["git", "init", "-q", str(tmp_path / "plain" / "inner")], check=True)
    assert names(tmp_path) == [".gitignore", "a", "plain/inner/g", "sub/b"]


def test_an_ignored_folder_is_read_if_it_is_named(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    put(tmp_path, notes__a="1", b="2")
    (tmp_path / ".gitignore").write_text("notes\n")
    assert names(tmp_path, str(tmp_path / "notes")) == ["notes/a"]
    assert names(tmp_path, str(tmp_path / "*")) == ["b"]


def test_without_git_hidden_files_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, a="1", sub__b="2")
    put(tmp_path, **{".env": "secret", ".git__config": "x"})
    monkeypatch.setenv("PATH", "")
    assert names(tmp_path) == ["a", "sub/b"]


def test_patterns_and_files_are_read_once(tmp_path: Path) -> None:
    put(tmp_path, **{"a.py": "1", "b.py": "2", "sub__c.py": "3", "d.md": "4"})
    pattern = str(tmp_path / "**" / "*.py")
    assert names(tmp_path, pattern, str(tmp_path / "a.py"), str(tmp_path)) == [
        "a.py",
        "b.py",
        "sub/c.py",
        "d.md",
    ]
    with pytest.raises(NotFoundError, match="no file or folder"):
        names(tmp_path, str(tmp_path / "*.txt"))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_all_that_is_no_text_is_left_out_for_a_reason(tmp_path: Path) -> None:
    put(tmp_path, binary=b"\x7fELF\0", latin="é".encode("latin-1"), empty=" \n", huge=b"x" * (MOST_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "round").symlink_to(tmp_path)
    found = {one.path.name: one.why_not for one in own_texts([str(tmp_path)])}
    assert found.pop("pipe", "links and no files") == "links and no files"  # git does not list it
    assert found == {
        "binary": "no text", "latin": "no text in UTF-8", "empty": "empty", "huge": "larger than 1 MiB",
        "link": "links and no files", "round": "links and no files",
    }  # fmt: skip
    (pipe,) = own_texts([str(tmp_path / "pipe")])
    assert pipe.why_not == "links and no files"


def test_texts_are_read_as_models_write_them(tmp_path: Path) -> None:
    said = [{"role": "user", "content": 'say "hi"'}, {"role": "assistant", "content": "hi\nthere"}]
    put(tmp_path, crlf="\ufeffa\r\nb\r\n", **{
        "chat.jsonl": json.dumps({"messages": said}) + "\n\n", "chat.json": json.dumps(said),
        "other.json": '{"content": 1}', "broken.json": '{"a": ', "deep.json": "[" * 100_000,
    })  # fmt: skip
    texts = {one.path.name: one.texts for one in own_texts([str(tmp_path)])}
    both = ('say "hi"', "hi\nthere")
    assert texts.pop("deep.json")[0].startswith("[[")
    assert texts == {
        "crlf": ("a\nb\n",), "chat.jsonl": both, "chat.json": both,
        "other.json": ('{"content": 1}',), "broken.json": ('{"a": ',),
    }  # fmt: skip
