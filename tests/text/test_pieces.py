"""A long text is encoded in pieces, and its tokens are those of the whole."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.export.tokenizer.pretokenizers import PRE_TOKENIZERS
from edgedec.text import pieces
from edgedec.text.pieces import PieceRule, piece_rule
from edgedec.text.tokenizer import Tokenizer
from edgedec.text.word_patterns import WORD_PATTERNS
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, library_of, spm_metadata
from tests.text.multilingual import mixtures

FIRST_OF_FAMILY = {rule.regexes: name for name, rule in reversed(PRE_TOKENIZERS.items())}
WORDS = {"▁": -1.0, "a": -2.0, "▁a": -0.5, "an": -0.6, "e▁": -0.7, "▁▁": -0.8, "n": -2.0, "▁an": -0.4}
PIECES_OF_TEXT = (
    *("a", "b", "Word", "can't", "they'LL", "'s", "é", "e\u0301"),
    *("日本語", "ひらがな", "カタカナ", "слово", "한국어", "कि"),
    *(" ", " ", " ", "  ", "   ", "\n", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u3000", "\u00a0"),
    *(".", ",", "!", "(", ")", "/", "//", "$", "-", "_", "'", "€", "½", "\x00", "\u200b"),
    *("\u3002", "\uff0c", "\u3001", "\uff01"),
    *("1", "23", "2024", "١٢", "<tool>", "<|im_end|>", "<|im_", "[PAD4]", "▁"),
)


def soups(count: int, seed: int) -> list[str]:
    """Random rows of the pieces of text that patterns treat differently."""
    rng = random.Random(seed)
    return ["".join(rng.choices(PIECES_OF_TEXT, k=rng.randint(1, 60))) for _ in range(count)]


def short(rule: PieceRule | None) -> PieceRule:
    """The same rule with pieces of a few characters."""
    assert rule is not None
    return replace(rule, chars=3)


def whole(tokenizer: Tokenizer, text: str, special: bool = False) -> list[int]:
    """The encoding in one go."""
    return tokenizer._encoder.encode(text, parse_special=special)


def parts_of(rule: PieceRule, text: str) -> list[str]:
    return [text[start:end] for start, end in rule.pieces(text)]


def in_pieces(tokenizer: Tokenizer, rule: PieceRule, text: str, special: bool = False) -> list[int]:
    return [token for piece in parts_of(rule, text) for token in whole(tokenizer, piece, special)]


def test_every_family_of_patterns_can_be_cut() -> None:
    assert {rule.regexes for rule in PRE_TOKENIZERS.values()} == WORD_PATTERNS


@pytest.mark.parametrize("name", FIRST_OF_FAMILY.values())
def test_words_are_the_same_in_pieces(name: str, tmp_path: Path) -> None:
    tokenizer = built(tmp_path, bpe_metadata(pre=name))
    rule = short(piece_rule(tokenizer._encoder, adds_space=False))
    cutter = library_of(tmp_path).pre_tokenizer

    def words_of(part: str) -> list[str]:
        return [word for word, _ in cutter.pre_tokenize_str(part)]

    cuts = 0
    for text in [*soups(250, seed=1), *mixtures(50, seed=2)]:
        parts = parts_of(rule, text)
        assert "".join(parts) == text
        cuts += len(parts) - 1
        assert [word for part in parts for word in words_of(part)] == words_of(text), (text, parts)
        assert in_pieces(tokenizer, rule, text) == whole(tokenizer, text)
        assert in_pieces(tokenizer, rule, text, special=True) == whole(tokenizer, text, special=True)
    assert cuts > 100


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("style", ["normalizer", "metaspace", "metaspace whole"])
def test_sentencepiece_is_the_same_in_pieces(prefix: bool, style: str, tmp_path: Path) -> None:
    tokenizer = built(tmp_path, spm_metadata(WORDS, add_space_prefix=prefix))
    if style != "normalizer":
        scheme = "first" if prefix else "never"
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme}
        change(tmp_path, normalizer=None, pre_tokenizer={**metaspace, "split": style == "metaspace"})
        tokenizer = Tokenizer.load(tmp_path, tokenizer.info)
    assert tokenizer.adds_space == prefix
    rule = short(piece_rule(tokenizer._encoder, adds_space=prefix))
    cuts = 0
    for text in [*soups(400, seed=3), "e a\n\n a", "an\n\nan an", "<eos> a a<eos> a", "a a \n\n a an"]:
        cuts += len(parts_of(rule, text)) - 1
        assert in_pieces(tokenizer, rule, text) == whole(tokenizer, text), text
        assert in_pieces(tokenizer, rule, text, special=True) == whole(tokenizer, text, special=True), text
    assert cuts > 50
    assert parts_of(rule, "nnne nnne nnne") == ["nnne nnne nnne"], "a token joins e and a space"


def change(directory: Path, **sections: Any) -> None:
    path = directory / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8")) | sections
    path.write_text(json.dumps(document), encoding="utf-8")


def test_an_added_token_is_never_cut(tmp_path: Path) -> None:
    metadata = bpe_metadata()
    metadata["tokenizer.ggml.tokens"][3] = "o w"
    tokenizer = built(tmp_path, metadata)
    rule = short(piece_rule(tokenizer._encoder, adds_space=False))
    assert parts_of(rule, "hello world hello you") == ["hello world", " hello you"]
    assert in_pieces(tokenizer, rule, "hello world") == whole(tokenizer, "hello world")


@pytest.mark.parametrize("kind", ["bpe", "spm", "spm with a space"])
def test_tokens_that_take_white_space_with_them_are_never_cut_from_it(kind: str, tmp_path: Path) -> None:
    if kind == "bpe":
        tokenizer = built(tmp_path, bpe_metadata())
    else:
        tokenizer = built(tmp_path, spm_metadata(WORDS, add_space_prefix=kind != "spm"))
    added = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    change(tmp_path, added_tokens=[{**token, "lstrip": True, "rstrip": True} for token in added])
    tokenizer = Tokenizer.load(tmp_path, tokenizer.info)
    rule = short(piece_rule(tokenizer._encoder, adds_space=tokenizer.adds_space))
    control = [token["content"] for token in added if token["special"]]
    cuts = 0
    for text in soups(200, seed=8):
        text = text.join(control[:2]) + f" {control[0]} an {control[1]}\nan an\n{control[0]} an"
        cuts += len(parts_of(rule, text)) - 1
        for special in (False, True):
            assert in_pieces(tokenizer, rule, text, special) == whole(tokenizer, text, special), text
    assert cuts > 100


def test_an_unknown_kind_is_encoded_whole(tmp_path: Path) -> None:
    tokenizer = built(tmp_path, bpe_metadata())
    document = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    split = {"type": "Split", "pattern": {"Regex": r"\S+ \S+"}, "behavior": "Isolated", "invert": False}
    bytes_last = document["pre_tokenizer"]["pretokenizers"][-1]
    apart = [{**token, "single_word": True} for token in document["added_tokens"]]
    for sections in (
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes_last]}},
        {"normalizer": {"type": "Lowercase"}},
        {"added_tokens": apart},
    ):
        (tmp_path / "tokenizer.json").write_text(json.dumps(document | sections), encoding="utf-8")
        other = Tokenizer.load(tmp_path, tokenizer.info)
        assert piece_rule(other._encoder, adds_space=False) is None
        text = "two words " * 2000
        assert other.encode(text) == whole(other, text)


def test_long_texts_have_pieces_of_bounded_length(tmp_path: Path) -> None:
    rule = piece_rule(built(tmp_path, bpe_metadata())._encoder, adds_space=False)
    assert rule is not None
    for text in ("some words " * 9000, "# a line\nand another;\n" * 5000, "一二三四\uff0c五六七。" * 9000):
        parts = parts_of(rule, text)
        assert "".join(parts) == text
        assert max(map(len, parts)) <= rule.chars


def test_a_long_text_has_the_ids_of_the_whole(tmp_path: Path) -> None:
    tokenizer = built(tmp_path, bpe_metadata())
    text = " ".join(mixtures(2000, seed=4))
    assert len(text) > 50_000
    assert tokenizer.encode(text) == whole(tokenizer, text)


def test_letters_are_letters() -> None:
    for first, last in re.findall(r"(.)-(.)", pieces._LETTERS):
        assert all(unicodedata.category(chr(at))[0] == "L" for at in range(ord(first), ord(last) + 1))
