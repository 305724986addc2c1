"""Word splitting by pre-tokenizer name."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from edgedec.export.tokenizer import build_tokenizer
from edgedec.export.tokenizer.pretokenizers import PRE_TOKENIZERS
from tests.fixtures.tiny_tokenizers import bpe_metadata, built
from tests.text.multilingual import hard_texts


def words(pre: str, text: str) -> list[str]:
    """The words that ``pre`` cuts ``text`` into, with spaces shown as in the vocabulary."""
    splitter = Tokenizer.from_str(build_tokenizer(bpe_metadata(pre=pre))[0]).pre_tokenizer
    assert splitter is not None
    return [text[start:end] for _, (start, end) in splitter.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("pre", "text", "expected"),
    [
        ("gpt-2", "I'll go 123  times", ["I", "'ll", " go", " 123", " ", " times"]),
        ("gpt-2", "HE'S a\n\nb", ["HE", "'", "S", " a", "\n", "\n", "b"]),
        ("smollm", "x 123", ["x", " ", "1", "2", "3"]),
        ("qwen2", "HE'S 123!\n\nb", ["HE", "'S", " ", "1", "2", "3", "!\n\n", "b"]),
        ("qwen2", "a\n \n  b", ["a", "\n \n", " ", " b"]),
        ("llama-bpe", "1234567 (x)", ["123", "456", "7", " (", "x", ")"]),
        ("default", "a,b $5 12345", ["a", ",", "b", " ", "$", "5", " ", "123", "45"]),
        ("falcon", "1234 `x`", ["123", "4", " ", "`", "x", "`"]),
        ("gpt-4o", "camelCase ÉTÉs it's", ["camel", "Case", " ÉTÉs", " it's"]),
        ("tekken", "aB12/\n", ["a", "B", "1", "2", "/\n"]),
        ("deepseek-v3", "1234日本x", ["123", "4", "日本", "x"]),
        ("bloom", "a, b\u3002c", ["a", ",", " b", "\u3002", "c"]),
        ("seed-coder", "a!\n", ["a", "!", "\n"]),
    ],
)
def test_cuts(pre: str, text: str, expected: list[str]) -> None:
    assert words(pre, text) == expected


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_every_rule_loads_and_loses_no_text(tmp_path: Path, pre: str) -> None:
    tokenizer = built(tmp_path, bpe_metadata(pre=pre))
    for text in hard_texts():
        kept = unicodedata.normalize("NFC", text) if PRE_TOKENIZERS[pre].composes else text
        assert tokenizer.decode(tokenizer.encode(text, add_bos=False)) == kept


@pytest.mark.parametrize("pre", ["qwen2", "qwen35", "deepseek-r1-qwen", "olmo"])
def test_texts_are_composed_where_transformers_composes_them(pre: str, tmp_path: Path) -> None:
    """A file of Qwen2 gives the tokens that the directory it was made of gives."""
    tokenizer = built(tmp_path, bpe_metadata(pre=pre))
    assert tokenizer.encode("cafe\u0301") == tokenizer.encode("caf\u00e9")
    (tmp_path / "other").mkdir()
    other = built(tmp_path / "other", bpe_metadata(pre="llama-bpe"))
    assert other.encode("cafe\u0301") != other.encode("caf\u00e9")


def test_a_missing_name_means_default() -> None:
    metadata = bpe_metadata()
    del metadata["tokenizer.ggml.pre"]
    assert build_tokenizer(metadata) == build_tokenizer(bpe_metadata(pre="default"))


def test_ignore_merges_takes_a_whole_word_that_no_merge_makes(tmp_path: Path) -> None:
    metadata = bpe_metadata(pre="llama-bpe")
    metadata["tokenizer.ggml.tokens"].append("zzz")
    metadata["tokenizer.ggml.token_type"].append(1)
    last = len(metadata["tokenizer.ggml.tokens"]) - 1
    assert built(tmp_path, metadata).encode("zzz", add_bos=False) == [last]
    metadata["tokenizer.ggml.pre"] = "dbrx"
    assert len(built(tmp_path, metadata).encode("zzz", add_bos=False)) == 3
