"""Session files with a KV cache: the same bytes as Python writes, and each side reads the other's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_int64, c_void_p
from pathlib import Path

import pytest

from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.native.probe import function, text_function
from edgedec.session.session_file import open_file, write_file
from tests.fixtures.opened import onnx_forward
from tests.native.native_forward import NativeForward, checked
from tests.native.test_model import FULL, bits, bundle, pair

__all__ = ["bundle"]  # a fixture
DOCUMENT = {"format": "edgedec-session", "version": 2, "text": "Grüße", "tokens": [1, 2]}
TOKENS = [5, 17, 3, 42, 8]


def write(path: Path, forward: NativeForward, length: int) -> None:
    document = json.dumps(DOCUMENT, ensure_ascii=False).encode()
    call = function("session_write", c_int, c_void_p, c_char_p, c_char_p, c_int64)
    checked(call(forward._handle, str(path).encode(), document, length))


def read(path: Path, forward: NativeForward, length: int) -> None:
    call = function("session_read", c_int, c_void_p, c_char_p, c_int64)
    checked(call(forward._handle, str(path).encode(), length))


def document_of(path: Path) -> bytes:
    found = text_function("session_document", c_char_p)(str(path).encode())
    assert found is not None
    return bytes(found)


@pytest.mark.parametrize(("name", "count"), [("llama", 5), ("gemma3", 400)])
def test_the_same_file_opens_on_both_sides(
    name: str, count: int, bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    native, python = pair(bundle(name))
    tokens = (TOKENS * count)[:count]
    for at in range(0, count, 40):
        for side in (native, python):
            side.extend(tokens[at : at + 40])
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write(ours, native, count)
    write_file(theirs, DOCUMENT, lambda sink: python.write_cache(sink, count))
    assert ours.read_bytes() == theirs.read_bytes()
    assert ours.stat().st_mode & 0o777 == theirs.stat().st_mode & 0o777 == 0o600
    assert json.loads(document_of(theirs)) == DOCUMENT
    again = pair(bundle(name))
    read(theirs, again[0], count)
    with open_file(ours) as stored:
        assert stored.document == DOCUMENT
        again[1].read_cache(stored.body, count)
    expected = bits(python.extend([9], rows=FULL))
    assert {bits(side.extend([9], rows=FULL)) for side in (native, *again)} == {expected}
    assert [side.length for side in again] == [count + 1] * 2


def test_int8_rows_have_a_format_of_their_own(bundle: Callable[[str], Path]) -> None:
    """Older ones, which have the same size, do not fit."""
    native, python = pair(bundle("llama"), "int8")
    assert native.cache_layout == python.cache_layout
    assert native.cache_layout.startswith("int8.2 ")


def test_damaged_files_are_refused_as_python_refuses_them(
    bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    forward = onnx_forward(bundle("llama"), threads=1, capacity=20)
    forward.extend(TOKENS)
    whole = tmp_path / "whole"
    write_file(whole, DOCUMENT, lambda sink: forward.write_cache(sink, 5))
    content = whole.read_bytes()
    damages = {
        "flipped": content[:100] + bytes([content[100] ^ 1]) + content[101:],
        "cut": content[:-1],
        "short": content[:20],
        "empty": b"",
        "longer": content + b"x",
        "other": b"something else, which is longer than the magic word" * 3,
        "old": b'{"format": "edgedec-session ", "version": 1}',
    }
    for name, damaged in damages.items():
        path = tmp_path / name
        path.write_bytes(damaged)
        with pytest.raises(EdgeDecError) as error, open_file(path):
            pass
        said = json.loads(document_of(path))
        if name != "old":
            assert said == {"code": 4, "message": error.value.message, "hint": error.value.hint or ""}
        assert said["code"] == 4
    assert json.loads(document_of(tmp_path / "missing"))["code"] == 3
    os.mkfifo(tmp_path / "pipe")
    assert json.loads(document_of(tmp_path / "pipe"))["code"] == 4


def test_a_cache_that_does_not_fit_leaves_an_empty_one(bundle: Callable[[str], Path], tmp_path: Path) -> None:
    native, _ = pair(bundle("llama"))
    native.extend(TOKENS)
    path = tmp_path / "session"
    write(path, native, 5)
    for length, words in ((6, "wrong size"), (4, "there is more")):
        with pytest.raises(BadFileError, match=words):
            read(path, native, length)
    native.rewind(0)
    native.extend(TOKENS)
    with pytest.raises(BadFileError, match="wrong size"):
        read(path, native, 6)
    assert native.length == 0
