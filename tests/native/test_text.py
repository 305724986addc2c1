"""text/: the engine's tokenizer, streams and stop strings beside Python's."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedec.native.text_probe import NativeError, TextProbe
from edgedec.session.text_stream import TextStream
from edgedec.text.stop_strings import StopStrings
from edgedec.text.thinking import ThinkingSplitter, thinking_tags
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, spm_metadata
from tests.text.multilingual import hard_texts, mixtures

WORDS = {
    "▁": -1.0,
    "a": -2.0,
    "▁a": -0.5,
    "an": -0.6,
    "n": -2.0,
    "▁an": -0.4,
    "é": -3.0,
    "日本": -0.9,
    "本": -3.0,
}
SIDES = ("bpe", "spm", "spm with a space")
Both = tuple[Tokenizer, TextProbe]


@pytest.fixture(scope="module", params=SIDES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("tokenizer")
    if request.param == "bpe":
        tokenizer = built(folder, bpe_metadata())
    else:
        tokenizer = built(folder, spm_metadata(WORDS, add_space_prefix=request.param != "spm"))
    with native(folder, tokenizer) as probe:
        yield tokenizer, probe


def native(folder: Path, tokenizer: Tokenizer) -> TextProbe:
    info = tokenizer.info
    bos = info.bos_id if info.add_bos and info.bos_id is not None else -1
    return TextProbe(str(folder / "tokenizer.table"), spm=info.kind == "spm", bos=bos)


def texts() -> list[str]:
    control = ["<|im_start|>user\nhi<|im_end|>", "<eos>a<bos>", "an <tool> an", "<|im_", "\n\n<unk>"]
    return [*hard_texts(), *mixtures(100, seed=3), *control]


def test_ids(both: Both) -> None:
    tokenizer, probe = both
    for text in texts():
        for specials in (False, True):
            expected = tokenizer.encode(text, add_bos=False, parse_special=specials)
            assert probe.encode(text.encode(), specials=specials) == expected, text
        assert probe.ask("encode", text=text, inside=True)["ids"] == tokenizer.encode_inside(text), text


def test_bytes_that_are_no_text_are_read_as_python_reads_them(both: Both) -> None:
    tokenizer, probe = both
    rng = random.Random(5)
    parts = [
        bytes([byte]) for byte in (0x41, 0x80, 0xBF, 0xC0, 0xC3, 0xE0, 0xA0, 0xED, 0xF0, 0x90, 0xF4, 0xFF)
    ]
    parts += [text.encode() for text in ("é", "日本", "🙂", "\ud7ff", "\U0010ffff")]
    for length in range(1, 8):
        for _ in range(300):
            data = b"".join(rng.choices(parts, k=length))
            expected = tokenizer.encode(data.decode("utf-8", "replace"), add_bos=False)
            assert probe.encode(data, specials=False) == expected, data


def test_facts(both: Both) -> None:
    tokenizer, probe = both
    found = probe.ask("facts", first=-2, end=tokenizer.size + 5)
    pieces = [bytes(piece) for piece in found["pieces"]]
    assert pieces == [tokenizer.token_bytes(token) for token in range(-2, tokenizer.size + 5)]
    assert found["control"] == tokenizer.control_ids()
    assert found["size"] == tokenizer.size
    assert found["adds_space"] == tokenizer.adds_space
    assert found["most_bytes"] == tokenizer.most_bytes(1)


def streamed(tokenizer: Tokenizer, given: dict[str, Any]) -> dict[str, Any]:
    stream = TextStream(tokenizer, given["stops"], given["tokens"], given["shown"], given["spelled"])
    pieces = [stream.push(token) for token in given["ids"]]
    pieces.append(stream.flush(characters=given["characters"]))
    return {"pieces": pieces, "stopped": stream.stopped, "whole": stream.whole}


def test_a_stream_of_tokens_is_cut_as_in_python(both: Both) -> None:
    tokenizer, probe = both
    rng = random.Random(7)
    stops = ["a", "an", " ", "é", "\n\n", "hello", "n a", "🙂", "日", "xé", "<tool>"]
    kept = [token for token in range(tokenizer.size) if tokenizer.token_bytes(token)]
    for number in range(600):
        tokens = rng.choices(kept, k=rng.randint(0, 6)) if number % 2 else []
        texts_ids = tokenizer.encode(rng.choice(hard_texts()), add_bos=False)
        given: dict[str, Any] = {
            "ids": texts_ids[:40] if number % 3 else rng.choices(range(tokenizer.size), k=25),
            "tokens": tokens,
            "shown": (tokenizer.decode(tokens) + rng.choice(["", "a", " an", "é"]))[: rng.choice([2, 5, 99])],
            "stops": rng.sample(stops, rng.randint(0, 3)),
            "spelled": rng.choices(range(tokenizer.size), k=2),
            "characters": bool(rng.random() < 0.7),
        }
        assert probe.ask("stream", **given) == streamed(tokenizer, given), given


def test_token_by_token_is_the_whole_text(both: Both) -> None:
    tokenizer, probe = both
    for text in [*hard_texts()[:80], *mixtures(30, seed=9)]:
        ids = tokenizer.encode(text, add_bos=False)
        request: dict[str, Any] = {
            "ids": ids,
            "tokens": [],
            "shown": "",
            "stops": [],
            "spelled": [],
            "characters": True,
        }
        assert "".join(probe.ask("stream", **request)["pieces"]) == tokenizer.decode(ids)


def test_characters_byte_by_byte(tmp_path: Path) -> None:
    """Every two bytes of those that decide, and many longer runs of them, as tokens of a byte each."""
    tokenizer = built(tmp_path, spm_metadata(WORDS))
    byte_tokens = [tokenizer.id_of(bytes([byte])) for byte in range(256)]
    decisive = b"A\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xe1\xed\xef\xf0\xf1\xf4\xf5"
    rng = random.Random(17)
    runs = [*itertools.product(decisive, repeat=2)]
    runs += [tuple(rng.choices(decisive, k=rng.randint(3, 12))) for _ in range(1500)]
    request: dict[str, Any] = {"tokens": [], "shown": "", "stops": [], "spelled": [], "characters": True}
    with native(tmp_path, tokenizer) as probe:
        for run in runs:
            given = {**request, "ids": [byte_tokens[byte] for byte in run]}
            assert probe.ask("stream", **given) == streamed(tokenizer, given), run


@pytest.fixture(scope="module")
def alone() -> Iterator[TextProbe]:
    with TextProbe() as probe:
        yield probe


def test_stop_strings(alone: TextProbe) -> None:
    rng = random.Random(11)
    for _ in range(1500):
        stops = ["".join(rng.choices("abé", k=rng.randint(1, 4))) for _ in range(rng.randint(0, 3))]
        pieces = ["".join(rng.choices("abéx", k=rng.randint(0, 4))) for _ in range(rng.randint(1, 6))]
        expected = StopStrings(stops)
        parts = [expected.push(piece) for piece in pieces]
        found = alone.ask("stop", stops=stops, pieces=pieces)
        assert found == {"parts": [*parts, expected.flush()], "hit": expected.hit}, (stops, pieces)
    with pytest.raises(NativeError, match="must not be empty"):
        alone.ask("stop", stops=["a", ""], pieces=["a"])


SOURCES = ("", "<think> </think>", "[THINK] [/THINK]", "<channel|>")


def test_thinking(alone: TextProbe) -> None:
    rng = random.Random(13)
    for source, begun in itertools.product(SOURCES, (False, True)):
        tags = thinking_tags(source)
        parts = [*tags, tags[0][:3], tags[0][3:], tags[1][:2], tags[1][2:], "\n", " ", "a", "\u3000", "é"]
        for _ in range(250):
            pieces = rng.choices(parts, k=rng.randint(1, 7))
            splitter = ThinkingSplitter(begun=begun, tags=tags)
            expected = [[*splitter.push(piece)] for piece in pieces] + [[*splitter.flush()]]
            assert alone.ask("think", source=source, begun=begun, pieces=pieces)["parts"] == expected, pieces


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    tokenizer = built(tmp_path, bpe_metadata())
    path = tmp_path / "tokenizer.table"
    content = path.read_bytes()
    for damaged in (b"", content[:50], content[:-9], content[:4000] + b"?" + content[4001:], b"x" * 999):
        path.write_bytes(damaged)
        with pytest.raises(NativeError) as raised:
            native(tmp_path, tokenizer)
        assert raised.value.code == 4
