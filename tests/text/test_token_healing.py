"""Texts that end inside a token: the tokens that are taken back, and where nothing is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from edgedec.grammar.healing import Healing
from edgedec.text.infill import Infill, infill_prompt
from edgedec.text.token_healing import healed
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.real_models import installed
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, library_of, spm_metadata
from tests.text.test_infill import bpe, code_llama

WORDS = {"\u2581": -9.0, "t": -9.0, "h": -9.0, "e": -9.0, "th": -2.0, "he": -3.0, "\u2581the": -1.0,
         "the": -1.5, "\u65e5\u672c": -1.0, "\u65e5": -4.0, "\u672c": -4.0, "\u00e9": -4.0}  # fmt: skip


@pytest.fixture(params=["bpe", "spm"])
def tokenizer(tmp_path: Path, request: pytest.FixtureRequest) -> Tokenizer:
    """Both kinds of BPE: over bytes, and SentencePiece's with bytes to fall back to."""
    return built(tmp_path, bpe_metadata() if request.param == "bpe" else spm_metadata(WORDS))


def held(tokenizer: Tokenizer, text: str) -> bytes:
    return healed(tokenizer, tokenizer.encode(text, add_bos=False)).held


def test_tokens_are_found_by_their_beginning(tokenizer: Tokenizer) -> None:
    """As a look at every token finds them, whatever spells them."""
    every = {token: tokenizer.spell(token) for token in range(tokenizer.size + 1)}  # one id is unused
    beginnings = {piece[:end] for piece in every.values() for end in range(1, len(piece) + 1)}
    assert len(beginnings) > 256
    for beginning in beginnings:
        found = tokenizer.beginning_with(beginning)
        assert len(found) == len(set(found))
        assert set(found) == {token for token, piece in every.items() if piece.startswith(beginning)}
    assert tokenizer.beginning_with(b"no such token") == []


def test_the_library_finds_the_same_tokens_as_the_table(tmp_path: Path) -> None:
    from edgedec.text.encoder import LibraryEncoder

    table = built(tmp_path, bpe_metadata())
    library = Tokenizer(LibraryEncoder(library_of(tmp_path)), table.info)
    for beginning in (b" ", b" t", b"h", b"\xc3", b"<", b"x\x00"):
        assert sorted(library.beginning_with(beginning)) == sorted(table.beginning_with(beginning))


def test_the_beginning_of_a_longer_token_is_taken_back(tokenizer: Tokenizer) -> None:
    assert held(tokenizer, "x th").endswith(b" th")
    ids = tokenizer.encode("x th", add_bos=False)
    found = healed(tokenizer, ids)
    assert found.ids == ids[: len(found.ids)]
    assert b"".join(map(tokenizer.token_bytes, ids[len(found.ids) :])) == found.held


def test_nothing_is_taken_back_where_no_token_is_longer(tokenizer: Tokenizer) -> None:
    for text in ("", "x the", "Q", "x\u00e9"):
        ids = tokenizer.encode(text, add_bos=False)
        assert healed(tokenizer, ids).ids == ids
        assert held(tokenizer, text) == b""


def test_control_tokens_and_the_first_ones_stay(tokenizer: Tokenizer) -> None:
    control = next(iter(tokenizer.control_ids().values()))
    h = tokenizer.encode("h", add_bos=False)
    assert healed(tokenizer, [*h, control]).held == b""
    assert healed(tokenizer, [control, *h]).ids == [control]
    assert healed(tokenizer, h, keep=1).held == b""
    assert healed(tokenizer, []).ids == []


def test_a_character_of_several_tokens_stays_whole(tmp_path: Path) -> None:
    """Its last byte alone begins other tokens; all of it begins one of two characters."""
    tokenizer = built(tmp_path, spm_metadata({"\u65e5\u672c": -1.0, "\u672c": -2.0, "x": -3.0}))
    assert [tokenizer.token_bytes(one) for one in tokenizer.encode("x\u65e5", add_bos=False)][1:] == [
        b"\xe6", b"\x97", b"\xa5",
    ]  # fmt: skip
    assert held(tokenizer, "x\u65e5") == "\u65e5".encode()


def walk(tokenizer: Tokenizer, text: bytes, rng: random.Random) -> bytes:
    """The bytes of tokens drawn at random among those that are permitted, until ``text`` is over."""
    rule, said = Healing(tokenizer, tokenizer.size, text), b""
    while rule.left:
        allowed = [token for token in range(tokenizer.size) if rule.permits(token)]
        bits = rule.bits()
        assert [token for token in range(tokenizer.size) if bits[token // 8] >> token % 8 & 1] == allowed
        if len(allowed) == 1:
            assert rule.forced() == allowed
        token = rng.choice(allowed)
        assert rule.advance(token)
        said += tokenizer.token_bytes(token)
    return said


def test_every_way_of_permitted_tokens_begins_with_the_text(tokenizer: Tokenizer) -> None:
    rng = random.Random(5)
    for text in (" th", "the", "\u65e5\u672c", "\u00e9", "\U0001f600", " a the", "<"):
        for _ in range(20):
            assert walk(tokenizer, text.encode(), rng).startswith(text.encode())


def test_half_of_a_character_may_be_taken_back(tokenizer: Tokenizer) -> None:
    assert walk(tokenizer, b"\x97\xa5", random.Random(3)).startswith(b"\x97\xa5")


def test_tokens_are_permitted_by_their_bytes(tokenizer: Tokenizer) -> None:
    rule = Healing(tokenizer, tokenizer.size, b"the")
    wanted = {
        token
        for token in range(tokenizer.size)
        if (piece := tokenizer.spell(token)) and (piece.startswith(b"the") or b"the".startswith(piece))
    }
    permitted = {token for token in range(tokenizer.size) if rule.permits(token)}
    assert permitted <= wanted
    assert {tokenizer.spell(one) for one in permitted} == {tokenizer.spell(one) for one in wanted}
    assert rule.accepts
    assert not rule.finished


def test_a_walk_returns(tokenizer: Tokenizer) -> None:
    rule = Healing(tokenizer, tokenizer.size, b"th")
    t, h = tokenizer.id_of(b"t"), tokenizer.id_of(b"h")
    assert t is not None
    assert h is not None
    assert not rule.advance(h)
    assert rule.advance(t)
    assert rule.left == b"h"
    assert rule.advance(h)
    assert rule.left == b""
    assert rule.permits(0)
    assert not rule.permits(tokenizer.size)
    assert rule.forced() == []
    assert np_all(rule)
    rule.back(2)
    assert rule.left == b"th"
    rule.back(0)
    assert not rule.permits(h)


def np_all(rule: Healing) -> bool:
    return bool((rule.bits()[:-1] == 255).all())


def test_a_dead_end_is_not_permitted(tmp_path: Path) -> None:
    """``t`` could begin ``tzz``, and no token spells the ``z`` behind it: this vocabulary has no bytes."""
    metadata = spm_metadata({"tzz": -1.0, "t": -2.0})
    keep = [at for at, kind in enumerate(metadata["tokenizer.ggml.token_type"]) if kind != 6]
    for key in ("tokens", "token_type", "scores"):
        metadata[f"tokenizer.ggml.{key}"] = [metadata[f"tokenizer.ggml.{key}"][at] for at in keep]
    tokenizer = built(tmp_path, metadata)
    rule = Healing(tokenizer, tokenizer.size, b"tz")
    assert [tokenizer.spell(one) for one in range(tokenizer.size) if rule.permits(one)] == [b"tzz"]


def test_a_gap_takes_back_the_end_of_the_text_before_it(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path, "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    given = Infill("x th", "of")
    plain, found = infill_prompt(tokenizer, given), infill_prompt(tokenizer, given, heal=True)
    assert plain.held == b""
    assert found.held == b" th"
    without = infill_prompt(tokenizer, Infill("x", "of"))
    assert found.ids == without.ids
    assert found.ends == plain.ends


def test_a_gap_that_is_begun_takes_back_its_own_beginning(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path, "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    found = infill_prompt(tokenizer, Infill("x th", "of", "y th"), heal=True)
    assert found.held == b" th"
    assert found.ids == infill_prompt(tokenizer, Infill("x th", "of", "y")).ids


def test_a_space_that_the_tokenizer_put_there_is_taken_back_with_its_word(tmp_path: Path) -> None:
    tokenizer = code_llama(tmp_path)
    found = infill_prompt(tokenizer, Infill(" ", "b"), heal=True)
    assert found.held.startswith(b" ")
    assert infill_prompt(tokenizer, Infill("a", "b", " "), heal=True).held == b" "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("qwen2.5-coder-0.5b", "def f(n):\n    retu", b" retu"),
        ("qwen2.5-coder-0.5b", "see http:", b":"),
        ("qwen2.5-coder-0.5b", "a \U0001f600", b""),
        ("gemma3-270m", "Hello, wor", b" wor"),
        ("gemma3-270m", "retu", b"retu"),
        ("gemma3-270m", "The end. ", b" "),
    ],
)
def test_real_vocabularies(name: str, text: str, wanted: bytes) -> None:
    from edgedec.bundle.manifest import Manifest

    bundle = installed(name)
    tokenizer = Tokenizer.load(bundle, Manifest.load(bundle).tokenizer)
    assert held(tokenizer, text) == wanted
    if wanted:
        pieces = {tokenizer.spell(one) for one in tokenizer.beginning_with(wanted)}
        every = {piece for one in range(tokenizer.size) if (piece := tokenizer.spell(one)).startswith(wanted)}
        assert pieces == every
