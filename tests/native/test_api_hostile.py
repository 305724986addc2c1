"""The native engine with damaged conversations and senseless arguments: an error, or a reply as ever."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedec import native
from edgedec.core.errors import EdgeDecError
from edgedec.sampling import DrawParams
from tests.fixtures.files import replace_file
from tests.fixtures.tiny_models import tiny_bundle

GREEDY = DrawParams()
MESSAGES = [{"role": "user", "content": "hello world"}]
STRANGE: list[Any] = [
    None, True, 0, -1, 1, 289, 290, 2**31, 2**63, 10**30, 0.5, 1e308, "", "x", "\ud800", "fp16", "0.1.0",
    [], [1], [-1], [0.5], ["a"], [290], [2**31], [1] * 300, {}, {"role": "user"}, {"a": 1},
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[native.NativeModel]:
    bundle = tiny_bundle(tmp_path_factory.mktemp("tiny"))
    with native.open(bundle, threads=1, context=64) as opened:
        yield opened


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, below in items for found in ((*path, key), *places(below, (*path, key)))]


def damaged(draw: random.Random, data: bytes) -> bytes:
    """A session with something changed in its document or its cache, under a right hash."""
    first, line, cache = data[:-32].split(b"\n", 2)
    document = json.loads(line)
    for _ in range(draw.randrange(3)):
        *path, last = draw.choice(places(document))
        place = document
        for key in path:
            place = place[key]
        place[last] = copy.deepcopy(draw.choice(STRANGE))
    body = bytearray(cache)
    if draw.random() < 0.5:
        for _ in range(draw.randrange(1, 9)):
            body[draw.randrange(len(body))] = draw.randrange(256)
    if draw.random() < 0.1:
        body = body[: draw.randrange(len(body))]
    text = json.dumps(document).encode("utf-8", "replace")
    if draw.random() < 0.1:
        at = draw.randrange(len(text))
        text = text[:at] + draw.randbytes(2).replace(b"\n", b"") + text[at + 1 :]
    whole = first + b"\n" + text + b"\n" + bytes(body)
    return whole + hashlib.sha256(whole).digest()


def restore_damaged(model: native.NativeModel, folder: Path, seed: int, count: int) -> None:
    expected = model.reply(MESSAGES, sampling=GREEDY, max_tokens=6)
    model.save(folder / "talk")
    data, draw, refused = (folder / "talk").read_bytes(), random.Random(seed), 0
    for turn in range(count):
        replace_file(folder / "damaged", damaged(draw, data))
        try:
            model.restore(folder / "damaged")
            model.reply([{"role": "user", "content": "and?"}], sampling=GREEDY, max_tokens=2)
        except EdgeDecError:
            refused += 1
        if turn % 500 == 0:  # what was restored is forgotten by another prompt
            model.complete("something else", max_tokens=1)
            assert model.reply(MESSAGES, sampling=GREEDY, max_tokens=6).tokens == expected.tokens
    assert 0 < refused < count


def test_damaged_conversations(model: native.NativeModel, tmp_path: Path) -> None:
    restore_damaged(model, tmp_path, 1, 200)


@pytest.mark.slow
def test_a_hundred_thousand_damaged_conversations(model: native.NativeModel, tmp_path: Path) -> None:
    restore_damaged(model, tmp_path, 2, 100_000)


def test_senseless_tokens_and_texts(model: native.NativeModel) -> None:
    draw = random.Random(3)
    for _ in range(200):
        ids = [draw.choice([0, 1, 5, 289, 290, -1, 2**31 - 1, -(2**31)]) for _ in range(draw.randrange(5))]
        assert isinstance(model.decode(ids), str)
        try:
            model.generate(ids, max_tokens=draw.choice([0, 1, 3]), stops=draw.choice([(), ("",), ("a", "b")]))
        except EdgeDecError:
            continue
        assert ids
        assert all(0 <= token < 290 for token in ids)
    for text in ("\ud800", "\udfff x", "a\0b", "\U0010ffff" * 10, "<|im_end|>" * 5):
        model.encode(text, specials=True)
        model.complete(text, max_tokens=1)
