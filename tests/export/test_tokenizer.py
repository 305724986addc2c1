"""build_tokenizer: kinds, special tokens, ends of turn, bad metadata."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.tokenizer import build_tokenizer
from edgedec.export.tokenizer.pretokenizers import PRE_TOKENIZERS
from tests.fixtures.tiny_tokenizers import bpe_metadata, spm_metadata

WORDS = {"a": -1.0, "b": -2.0, "ab": -0.5, "▁": -3.0}


def test_info_of_byte_level_bpe() -> None:
    _, info = build_tokenizer(bpe_metadata())
    assert (info.kind, info.add_bos, info.bos_id, info.chat_template) == ("bpe", False, 1, True)
    assert info.eos_ids == (2, 0), "eos first, then <|endoftext|> by its name"


def test_info_of_sentencepiece() -> None:
    _, info = build_tokenizer(spm_metadata(WORDS))
    assert (info.kind, info.add_bos, info.bos_id, info.chat_template) == ("spm", True, 2, False)
    assert info.eos_ids == (1, 4)


def test_sentencepiece_defaults_when_the_file_is_silent() -> None:
    metadata = spm_metadata(WORDS)
    for key in ("bos_token_id", "eos_token_id", "unknown_token_id"):
        del metadata[f"tokenizer.ggml.{key}"]
    _, info = build_tokenizer(metadata)
    assert (info.bos_id, info.eos_ids) == (1, (2, 4))


@pytest.mark.parametrize(("pre", "adds"), [("llama-bpe", True), ("tekken", True), ("qwen2", False)])
def test_add_bos_default_depends_on_the_pre_tokenizer(pre: str, adds: bool) -> None:
    metadata = bpe_metadata(pre=pre)
    del metadata["tokenizer.ggml.add_bos_token"]
    assert build_tokenizer(metadata)[1].add_bos is adds


def test_no_bos_id_means_no_bos() -> None:
    metadata = bpe_metadata(add_bos_token=True)
    del metadata["tokenizer.ggml.bos_token_id"]
    info = build_tokenizer(metadata)[1]
    assert (info.add_bos, info.bos_id) == (False, None)


def test_explicit_end_of_turn_ids_come_before_the_named_ones() -> None:
    _, info = build_tokenizer(bpe_metadata(eos_token_id=0, eot_token_id=7, eom_token_id=9))
    assert info.eos_ids == (0, 7, 9, 2)


def test_harmony_message_end_does_not_end_the_reply() -> None:
    metadata = bpe_metadata()
    metadata["tokenizer.ggml.tokens"][1:5] = ["<|end|>", "<|return|>", "<|call|>", "x" * 9]
    assert build_tokenizer(metadata)[1].eos_ids == (2, 0, 3)
    assert build_tokenizer({**metadata, "tokenizer.ggml.eot_token_id": 1})[1].eos_ids == (2, 0, 3)
    metadata["tokenizer.ggml.tokens"][2] = "<|other|>"
    assert 1 in build_tokenizer(metadata)[1].eos_ids


def test_added_tokens_are_special_by_type() -> None:
    added = json.loads(build_tokenizer(bpe_metadata())[0])["added_tokens"]
    assert [(token["id"], token["special"]) for token in added] == [
        (0, True),
        (1, True),
        (2, True),
        (3, False),
    ]
    assert not any(token["normalized"] or token["lstrip"] or token["rstrip"] for token in added)


def test_an_end_of_turn_of_the_wrong_type_is_special_all_the_same() -> None:
    metadata = bpe_metadata()
    metadata["tokenizer.ggml.token_type"][2] = 1
    added = json.loads(build_tokenizer(metadata)[0])["added_tokens"]
    assert next(token for token in added if token["id"] == 2)["special"]


def test_text_is_compact() -> None:
    text, _ = build_tokenizer(spm_metadata({"é": -1.0, "▁": -2.0, "▁é": -3.0}))
    assert '"▁ é"' in text
    assert '": ' not in text
    assert "\\u" not in text


def test_unused_ids_take_no_space() -> None:
    assert "[PAD4]" not in build_tokenizer(bpe_metadata())[0]


def test_of_a_merge_listed_twice_the_first_counts() -> None:
    metadata = bpe_metadata()
    merges = metadata["tokenizer.ggml.merges"]
    doubled = {**metadata, "tokenizer.ggml.merges": [*merges, merges[0]]}
    assert build_tokenizer(doubled)[0] == build_tokenizer(metadata)[0]


def test_unknown_pre_tokenizer_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match="'klingon'") as caught:
        build_tokenizer(bpe_metadata(pre="klingon"))
    assert all(name in str(caught.value) for name in PRE_TOKENIZERS)


@pytest.mark.parametrize("model", ["t5", "bert", None, 3])
def test_other_kinds_are_unsupported(model: Any) -> None:
    with pytest.raises(UnsupportedError, match="tokenizer of kind"):
        build_tokenizer({**bpe_metadata(), "tokenizer.ggml.model": model})


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (bpe_metadata(tokens=[]), "tokens is missing"),
        (bpe_metadata(tokens=[1, 2]), "list of strings"),
        (bpe_metadata(tokens="abc"), "list of strings"),
        (bpe_metadata(token_type=[1]), "token_type has 1 entries"),
        (bpe_metadata(token_type=True), "token_type is not a list of numbers"),
        (bpe_metadata(token_type=[math.nan] * 9), "token_type is not a list of numbers"),
        (bpe_metadata(pre=["qwen2"]), "pre is not a name"),
        (bpe_metadata(eos_token_id=[1]), "eos_token_id is not a token id"),
        (bpe_metadata(bos_token_id=math.nan), "bos_token_id is not a token id"),
        (bpe_metadata(eot_token_id="2"), "eot_token_id is not a token id"),
        (spm_metadata(WORDS, unknown_token_id=math.inf), "unknown_token_id is not a token id"),
        (spm_metadata(WORDS, scores=["a"]), "scores is not a list of numbers"),
        (bpe_metadata(merges=[]), "merges is missing"),
        (bpe_metadata(merges=["ab"]), "entry 0 is not a pair"),
        (bpe_metadata(merges=["a "]), "entry 0 is not a pair"),
        (bpe_metadata(merges=["q q"]), "'qq' is no token"),
        (spm_metadata(WORDS, scores=[]), "scores is missing"),
        (spm_metadata(WORDS, scores=[1.0]), "scores has 1 entries"),
    ],
)
def test_bad_metadata_is_a_bad_file(metadata: dict[str, Any], words: str) -> None:
    with pytest.raises(BadFileError, match=words):
        build_tokenizer(metadata)
