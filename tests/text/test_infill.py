"""Prompts for the text between two others: the order of their parts, for each family, and spaces between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import ContextFullError, UnsupportedError, UsageError
from edgedec.text.infill import Infill, infill_prompt, infills
from edgedec.text.limits import TextLimits
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, spm_metadata, texts_of

QWEN = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")
CODE_LLAMA = ("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", "\u2581<EOT>")
DEEPSEEK = ("<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>")
WORDS = {"\u2581": -1.0, "a": -2.0, "b": -2.0, "c": -2.0, "\u2581a": -0.5, "\u2581b": -0.5, "\u2581c": -0.5}


def bpe(folder: Path, *names: str, **changes: Any) -> Tokenizer:
    """A tokenizer with control tokens of these names."""
    metadata = bpe_metadata()
    metadata["tokenizer.ggml.tokens"] = [*metadata["tokenizer.ggml.tokens"], *names]
    metadata["tokenizer.ggml.token_type"] = [*metadata["tokenizer.ggml.token_type"], *[3] * len(names)]
    return built(folder, metadata | {f"tokenizer.ggml.{name}": value for name, value in changes.items()})


def code_llama(folder: Path) -> Tokenizer:
    """A tokenizer that puts a space before a text, with the tokens of CodeLlama."""
    metadata = spm_metadata(WORDS, add_space_prefix=True)
    metadata["tokenizer.ggml.tokens"] = [*metadata["tokenizer.ggml.tokens"], *CODE_LLAMA]
    metadata["tokenizer.ggml.token_type"] = [*metadata["tokenizer.ggml.token_type"], *[3] * 4]
    metadata["tokenizer.ggml.scores"] = [*metadata["tokenizer.ggml.scores"], *[0.0] * 4]
    return built(folder, metadata)


def shown(tokenizer: Tokenizer, given: Infill) -> str:
    """The prompt as the vocabulary spells it."""
    return "".join(texts_of(tokenizer, infill_prompt(tokenizer, given).ids))


def test_the_gap_is_behind_both_texts(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path, *QWEN)
    assert shown(tokenizer, Infill("a", "b")) == "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"
    assert shown(tokenizer, Infill("", "b")) == "<|fim_prefix|><|fim_suffix|>b<|fim_middle|>"


def test_the_beginning_of_the_gap_is_in_the_gap(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path, *QWEN)
    assert shown(tokenizer, Infill("a", "b", "c")) == "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>c"


def test_other_files_stand_before(tmp_path: Path) -> None:
    found = shown(bpe(tmp_path, *QWEN), Infill("a", "b", extra=(("x.py", "X"),)))
    assert found.startswith("<|repo_name|>")
    assert found.index("<|file_sep|>x.py") < found.index("X") < found.rindex("<|file_sep|>")
    assert found.endswith("<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>")


def test_other_files_are_text_where_no_token_parts_them(tmp_path: Path) -> None:
    found = shown(bpe(tmp_path, *DEEPSEEK), Infill("a", "b", extra=(("x", "c"),)))
    assert found.startswith(DEEPSEEK[0])
    assert "---" in found
    assert found.endswith(f"a{DEEPSEEK[1]}b{DEEPSEEK[2]}")


def test_the_text_behind_may_come_first(tmp_path: Path) -> None:
    names = ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>")
    assert shown(bpe(tmp_path, *names), Infill("a", "b")) == "<[fim-suffix]>b<[fim-prefix]>a<[fim-middle]>"


def test_a_space_is_put_before_the_first_text_alone(tmp_path: Path) -> None:
    tokenizer = code_llama(tmp_path)
    found = infill_prompt(tokenizer, Infill("a", "b", "c")).ids
    assert texts_of(tokenizer, found) == [
        "<bos>", CODE_LLAMA[0], "\u2581a", CODE_LLAMA[1], "b", CODE_LLAMA[2], "c",
    ]  # fmt: skip


def test_tokens_that_no_gap_has_end_it(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path, *QWEN)
    assert {tokenizer.token_text(id) for id in infill_prompt(tokenizer, Infill("a", "b")).ends} == set(QWEN)
    other = code_llama(tmp_path)
    ends = infill_prompt(other, Infill("a", "b")).ends
    assert "\u2581<EOT>" in {other.token_text(id) for id in ends}


def test_control_tokens_in_texts_are_text(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path, *QWEN)
    found = infill_prompt(tokenizer, Infill("<|fim_suffix|>", "<|im_end|>")).ids
    assert texts_of(tokenizer, found).count("<|fim_suffix|>") == 1
    assert 2 not in found


@pytest.mark.parametrize("keys", [("fim_pre", "fim_suf", "fim_mid"), ("prefix", "suffix", "middle")])
def test_a_file_may_name_tokens_that_nobody_knows(tmp_path: Path, keys: tuple[str, ...]) -> None:
    named = {f"{key}_token_id": at for at, key in enumerate(keys)}
    tokenizer = bpe(tmp_path, **named)
    assert tokenizer.info.infill == (0, 1, 2)
    assert shown(tokenizer, Infill("a", "b")) == "<|endoftext|>a<|im_start|>b<|im_end|>"


def test_models_without_such_tokens_say_so(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path, *QWEN[:2])
    assert not infills(tokenizer)
    with pytest.raises(UnsupportedError, match="no tokens for the text between"):
        infill_prompt(tokenizer, Infill("a", "b"))
    assert infills(bpe(tmp_path, *QWEN))


def test_texts_that_fit_nowhere_are_refused(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path, *QWEN)
    with pytest.raises(ContextFullError):
        infill_prompt(tokenizer, Infill("a", "b " * 10_000), TextLimits(100))
    with pytest.raises(UsageError, match="no text around"):
        Infill("", "")
