"""Questions about long texts that ``docs.measure`` writes: their lengths, and what they ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.measure import long_questions
from docs.measure.long_texts import cut, facts, sown, text, tokenizer_of
from edgedec.bench.harness.questions import read_questions
from edgedec.bench.harness.texts import read_prompts
from tests.fixtures.tiny_models import tiny_bundle

TOKENS = 2000


def test_a_file_has_questions_in_turns_behind_as_many_tokens_as_asked_for(tmp_path: Path) -> None:
    model, file = str(tiny_bundle(tmp_path)), tmp_path / "long.jsonl"
    long_questions.main(model, str(TOKENS), str(file))
    found, tokenizer = read_questions(file), tokenizer_of(model)
    assert [one.category for one in found] == ["summarization", "code", "rag"]
    assert [len(one.turns) for one in found] == [3, 3, 3]
    assert read_prompts(file) == [one.turns[0] for one in found]
    for one in found[:2]:
        whole = cut(text(long_questions.ABOUT[one.category]), TOKENS, tokenizer)
        assert abs(len(tokenizer.encode(whole)) - TOKENS) < 5
        assert one.turns[0].startswith(whole)
    for turn, fact in zip(found[2].turns, facts("prose"), strict=False):
        assert fact.statement in found[2].turns[0]
        assert fact.same in turn


def test_facts_are_hidden_whole_and_change_nothing_else() -> None:
    for kind in ("prose", "code"):
        whole, hidden = text(kind)[:30_000], facts(kind)
        made = sown(whole, kind, hidden)
        for fact in hidden:
            assert made.count(fact.statement) == 1
            made = made.replace(fact.statement, "")
        assert made.split() == whole.split()


def test_a_text_that_is_too_short_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ask for fewer than 10"):
        cut("Short.", 10, tokenizer_of(str(tiny_bundle(tmp_path))))
