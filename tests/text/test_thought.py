"""The place of a reply in its thinking part: a function of its tokens, however they cut the tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.text.thinking import ThinkingSplitter, effort_limit
from edgedec.text.thought import ThoughtRule
from edgedec.text.thought_walk import ThoughtWalk
from edgedec.text.tokenizer import Tokenizer
from tests.session.parrot import make_tokenizer

PARTS = ["<think>", "</think>", "<", "think>", "</thi", "nk>", "\n", " ", "hello", "x", "ä", "</"]


@pytest.fixture(scope="module", params=["texts", "control tokens"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    marks = () if request.param == "texts" else ("<think>", "</think>")
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"), marks)


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_bos=False, parse_special=True)


@given(parts=st.lists(st.sampled_from(PARTS), max_size=8), begun=st.booleans())
def test_it_is_where_a_reader_of_the_text_finds_it(
    tokenizer: Tokenizer, parts: list[str], begun: bool
) -> None:
    text = "".join(parts)
    splitter = ThinkingSplitter(begun=begun)
    splitter.push(text)
    walk = ThoughtWalk(ThoughtRule.of(""), tokenizer, ids(tokenizer, "so: <think>\n" if begun else "so:"))
    place = walk.along(walk.start, ids(tokenizer, text))
    assert place.inside == splitter.thinking
    assert place.over == splitter.over


@given(words=st.integers(0, 9), limit=st.integers(0, 12))
def test_a_thought_is_closed_after_exactly_so_many_tokens(
    tokenizer: Tokenizer, words: int, limit: int
) -> None:
    walk = ThoughtWalk(ThoughtRule.of("", limit), tokenizer, [])
    place = walk.along(walk.start, ids(tokenizer, "<think>"))
    for count in range(words):
        assert walk.due(place) == (count >= limit)
        if walk.due(place):
            break
        place = walk.after(place, ids(tokenizer, "x")[0])
    if not walk.due(place):
        assert walk.along(place, ids(tokenizer, "</think>")).closed is False
        return
    assert place.tokens == limit
    place = walk.along(place, walk.closing)
    assert (place.closed, place.over, place.tokens) == (True, True, limit)
    assert tokenizer.decode(walk.closing, tokenizer.control_ids().values()).rstrip().endswith("</think>")


@pytest.mark.parametrize(
    ("template", "begin", "ends"),
    [
        ("<|channel>thought <channel|>", "<|channel>thought", "<channel|>\n\n"),
        ("[THINK][/THINK]", "[THINK]", "[/THINK]\n\n"),
        (
            "<|channel|>analysis<|message|> <|channel|>final",
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
    ],
)
def test_each_family_has_its_own_words(template: str, begin: str, ends: str) -> None:
    rule = ThoughtRule.of(template, 3)
    assert rule.begin == begin
    assert rule.closing.endswith(ends)


def test_efforts_bound_thoughts_where_the_template_knows_no_word() -> None:
    plain, switch, word = "<think>", "{% if enable_thinking %}<think>{% endif %}", "{{ reasoning_effort }}"
    assert [effort_limit(plain, one) for one in ("none", "low", "medium", "high", None)] == [
        0, 1024, 8192, None, None,
    ]  # fmt: skip
    assert effort_limit(switch, "none") is None
    assert effort_limit(switch, "low") == 1024
    assert effort_limit(word, "low") is None
