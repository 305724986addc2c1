"""SentencePiece as ranked merges: the same ids as a direct reading of the reference algorithm."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from edgedec.core.errors import BadFileError
from edgedec.export.tokenizer.spm import canonical_split, derive_merges
from edgedec.export.tokenizer.vocabulary import read_vocabulary
from tests.fixtures.tiny_tokenizers import built, spm_metadata, texts_of


def reference(text: str, scores: dict[str, float]) -> list[str]:
    """Join the best-scoring neighbours (leftmost on a tie) until none is a token; spell the rest in bytes."""
    parts = list(text.replace(" ", "▁"))
    while True:
        joins = [(-scores[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in scores]
        if not joins:
            break
        at = min(joins)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    spelt = [[part] if part in scores else [f"<0x{byte:02X}>" for byte in part.encode()] for part in parts]
    return [text for piece in spelt for text in piece]


def random_vocabulary(rng: random.Random, letters: str) -> dict[str, float]:
    """Single letters and random words over them, with distinct scores in random order."""
    words = {"".join(rng.choices(letters, k=rng.randint(2, 7))) for _ in range(rng.randint(5, 120))}
    tokens = [*letters, *sorted(words)]
    order = rng.sample(range(len(tokens)), len(tokens))
    return {token: -float(rank) for token, rank in zip(tokens, order, strict=True)}


@pytest.mark.parametrize("seed", range(40))
def test_same_ids_as_the_reference_for_random_vocabularies(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    letters = rng.choice(["ab", "abc▁", "aé▁日"])
    scores = random_vocabulary(rng, letters)
    tokenizer = built(tmp_path, spm_metadata(scores))
    for _ in range(50):
        text = "".join(rng.choices(letters.replace("▁", " ") + "ß", k=rng.randint(1, 40)))
        got = texts_of(tokenizer, tokenizer.encode(text, add_bos=False))
        assert got == reference(text, scores), (seed, text)


@pytest.mark.parametrize("seed", range(10))
def test_no_other_split_of_a_token_ever_happens(seed: int) -> None:
    rng = random.Random(seed)
    scores = random_vocabulary(rng, "ab")
    merges = set(derive_merges(read_vocabulary(spm_metadata(scores))))
    for _ in range(50):
        parts = list("".join(rng.choices("ab", k=40)))
        while joins := [
            (-scores[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in scores
        ]:
            at = min(joins)[1]
            assert (parts[at], parts[at + 1]) in merges
            parts[at : at + 2] = [parts[at] + parts[at + 1]]


def test_canonical_split_follows_the_scores() -> None:
    scores = {"ab": -1.0, "bc": -2.0, "abc": -3.0}
    assert canonical_split("abc", scores) == ("ab", "c")
    assert canonical_split("abc", {**scores, "bc": -0.5}) == ("a", "bc")
    assert canonical_split("xyz", scores) is None
    assert canonical_split("x", scores) is None


def test_text_that_looks_like_a_byte_or_control_token_stays_text(tmp_path: Path) -> None:
    letters = {char: -float(i) for i, char in enumerate("<0xA>eos▁")}
    scores = {**letters, "<0x0A": -20.0, "<eos": -21.0}
    tokenizer = built(tmp_path, spm_metadata(scores))
    ids = tokenizer.encode("<0x0A><eos>", add_bos=False)
    assert not {1, 6 + 10} & set(ids)
    assert tokenizer.decode(ids) == "<0x0A><eos>"


def test_user_defined_tokens_are_found_first(tmp_path: Path) -> None:
    tokenizer = built(tmp_path, spm_metadata({"\n": -1.0, "a": -2.0, "\n\n\n": -0.5}))
    assert texts_of(tokenizer, tokenizer.encode("a\n\n\na", add_bos=False)) == ["a", "\n\n", "\n", "a"]


def test_space_prefix(tmp_path: Path) -> None:
    words = {"▁": -1.0, "a": -2.0, "▁a": -0.5}
    tokenizer = built(tmp_path, spm_metadata(words, add_space_prefix=True))
    ids = tokenizer.encode("a<eos>a", add_bos=False, parse_special=True)
    assert texts_of(tokenizer, ids) == ["▁a", "<eos>", "▁a"], "after a special token too, as in llama.cpp"
    assert texts_of(tokenizer, tokenizer.encode(" a", add_bos=False)) == ["▁", "▁a"]
    assert tokenizer.decode(tokenizer.encode("a a", add_bos=False)) == "a a"


def test_tokens_that_contain_a_space_use_the_long_form_of_merges(tmp_path: Path) -> None:
    metadata = spm_metadata({"a": -1.0, "b": -2.0, "a b": -4.0, "ab": -3.0, "aba b": -5.0})
    tokenizer = built(tmp_path, metadata)
    assert texts_of(tokenizer, tokenizer.encode("ab", add_bos=False)) == ["ab"]


@pytest.mark.parametrize("seed", range(8))
def test_merges_of_the_file_give_the_ids_that_its_scores_give(tmp_path: Path, seed: int) -> None:
    """A gemma4 tokenizer states the merges that others derive."""
    rng = random.Random(seed)
    letters = rng.choice(["ab", "abc▁", "aé▁日"])
    scores = random_vocabulary(rng, letters)
    merges = [f"{a} {b}" for a, b in derive_merges(read_vocabulary(spm_metadata(scores)))]
    (tmp_path / "ranked").mkdir()
    derived = built(tmp_path, spm_metadata(scores))
    ranked = built(tmp_path / "ranked", spm_metadata(scores, model="gemma4", merges=merges, scores=[]))
    for _ in range(30):
        text = "".join(rng.choices(letters.replace("▁", " ") + "ß\n", k=rng.randint(1, 40)))
        ids = ranked.encode(text)
        assert ids == derived.encode(text)
        assert ranked.decode(ids) == derived.decode(ids)


@pytest.mark.parametrize(("merges", "words"), [([], "merges is missing"), (["a q"], "is no merge of tokens")])
def test_merges_that_are_missing_or_wrong(tmp_path: Path, merges: list[str], words: str) -> None:
    metadata = spm_metadata({"a": -1.0, "b": -2.0, "ab": -3.0}, model="gemma4", merges=merges)
    with pytest.raises(BadFileError, match=words):
        built(tmp_path, metadata)
