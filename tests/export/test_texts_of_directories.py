"""Texts beside a model: byte order marks, and the places where a chat template may be."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import BadFileError
from edgedec.export.huggingface.tokenizer import read_tokenizer
from edgedec.export.tokenizer import build_tokenizer, template_of
from edgedec.text.template import ChatTemplate
from tests.fixtures.tiny_tokenizers import bpe_metadata


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text(build_tokenizer(bpe_metadata())[0], encoding="utf-8")
    return tmp_path


def put(folder: Path, name: str, value: Any, *, mark: bool = False) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_bytes((codecs.BOM_UTF8 if mark else b"") + text.encode())


def test_a_byte_order_mark_is_no_part_of_a_text(folder: Path) -> None:
    content = (folder / "tokenizer.json").read_text(encoding="utf-8")
    plain = read_tokenizer(folder, 1000)
    put(folder, "tokenizer.json", content, mark=True)
    put(folder, "tokenizer_config.json", {"eos_token": "<|im_end|>"}, mark=True)
    put(folder, "chat_template.jinja", "own", mark=True)
    read = read_tokenizer(folder, 1000)
    assert (read.json, read.template, read.info.eos_ids[0]) == (plain.json, "own", 2)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.json"])
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("one", "one"),
        ("\ufeffone", "one"),
        ([{"name": "default", "template": "one"}, {"name": "rag", "template": "two"}], "one"),
        ([{"name": "tool_use", "template": "one"}, {"name": "rag", "template": "two"}], "one"),
        ([], None),
        ([3], None),
        ("", None),
        (None, None),
    ],
)
def test_where_a_template_may_be(name: str, entry: Any, expected: str | None, folder: Path) -> None:
    put(folder, name, {"chat_template": entry})
    assert read_tokenizer(folder, 1000).template == expected


def test_which_template_comes_first(folder: Path) -> None:
    put(folder, "chat_template.json", {"chat_template": "third"})
    put(folder, "tokenizer_config.json", {"chat_template": "second"})
    assert read_tokenizer(folder, 1000).template == "second"
    put(folder, "chat_template.jinja", "first")
    assert read_tokenizer(folder, 1000).template == "first"


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"tokenizer.chat_template": "\ufeffone"}, "one"),
        ({"tokenizer.chat_template.tool_use": "two", "tokenizer.chat_template.rag": "one"}, "one"),
        ({"tokenizer.chat_template.rag": "two", "tokenizer.chat_template": "one"}, "one"),
        ({"tokenizer.chat_template": ""}, None),
        ({}, None),
    ],
)
def test_the_template_of_a_file(stated: dict[str, str], expected: str | None) -> None:
    assert template_of(stated) == expected


def test_a_template_of_a_file_that_is_not_utf_8() -> None:
    with pytest.raises(BadFileError, match="chat_template is not UTF-8"):
        template_of({"tokenizer.chat_template": b"\xff"})


def test_a_template_of_an_older_bundle_with_a_byte_order_mark(tmp_path: Path) -> None:
    put(tmp_path, "chat_template.jinja", "own", mark=True)
    template = ChatTemplate.load(tmp_path, bos="", eos="")
    assert template is not None
    assert template.source == "own"
