"""Tokenizers whose steps multiply a text are refused before a text meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import UnsupportedError
from edgedec.text.tokenizer import Tokenizer
from tests.session.parrot import make_tokenizer

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def replace(content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": "e"}, "content": content}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "bytes of bytes": lambda d: d.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTES] * 40}),
    "two are too many": lambda d: d.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTES] * 2}),
    "doubling": lambda d: d.update(normalizer=sequence(*[replace("ee")] * 40)),
    "hidden doubling": lambda d: d.update(normalizer=sequence(*[sequence(replace("ee"))] * 40)),
    "one huge": lambda d: d.update(normalizer=replace("e" * 100_000)),
    "many": lambda d: d.update(normalizer=sequence(*[{"type": "NFKC"}] * 40)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_steps_that_multiply_a_text(name: str, tmp_path: Path) -> None:
    info = make_tokenizer(tmp_path).info
    path = tmp_path / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    CHANGES[name](document)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UnsupportedError, match="rewrites text in more steps"):
        Tokenizer.load(tmp_path, info)
