"""A long prompt made short: its parts, its question, the choice, and the marks of what is left out."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest

from edgedec.text.kept_parts import LEAST_CHARS, MARK, asked_in, chosen, joined, parts_of, shortened

LINES = "".join(f"line {at:03} of the file has some words in it, as lines do\n" for at in range(400))
PROSE = " ".join(f"Sentence {at} tells of a town and its river, and of its people." for at in range(300))


def shared_words(query: str, parts: Sequence[str]) -> list[float]:
    """Score texts by the words that they share with a question."""
    wanted = set(re.findall(r"\w+", query.lower()))
    return [float(len(wanted & set(re.findall(r"\w+", part.lower())))) for part in parts]


def random_text(seed: int) -> str:
    draw = random.Random(seed)
    pieces = ["word", " ", "\n", "\n\n", ". ", "! ", "。", "x" * 300, "\t", "\r\n", "é", "\u2028", "a b. c"]
    return "".join(draw.choice(pieces) for _ in range(draw.randrange(200)))


@pytest.mark.parametrize("seed", range(100))
def test_parts_are_the_text_and_none_is_long_or_blank(seed: int) -> None:
    text = random_text(seed)
    parts = parts_of(text)
    assert "".join(parts) == text
    assert all(part.strip() for part in parts) or not text.strip()
    assert all(len(part.strip()) <= 480 for part in parts)


def test_lines_stay_whole_and_long_ones_are_cut_at_sentences() -> None:
    assert all(part.endswith("\n") for part in parts_of(LINES))
    assert all(part.rstrip().endswith(".") for part in parts_of(PROSE))
    assert len(parts_of(PROSE)) > 100


@pytest.mark.parametrize("seed", range(100))
def test_the_choice_fits_and_holds_the_best(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(1, 40)
    scores, sizes = [draw.random() for _ in range(count)], [draw.randrange(1, 50) for _ in range(count)]
    room = draw.randrange(1, 400)
    kept = chosen(scores, sizes, room)
    assert kept == sorted(set(kept))
    best = max(range(count), key=lambda at: scores[at])
    assert len(kept) == 1 or sum(sizes[at] for at in kept) <= room
    assert best in kept or sizes[best] > room or kept


def test_a_neighbour_of_the_best_part_is_better_than_its_score() -> None:
    assert chosen([0.1, 0.2, 1.0, 0.3, 0.5, 0.6], [1] * 6, 3) == [1, 2, 3]


def test_equal_scores_keep_the_first() -> None:
    assert chosen([0.5] * 6, [1] * 6, 2) == [0, 1]


def test_marks_stand_where_something_was_left_out() -> None:
    parts = ["one\n", "two. ", "three. ", "four\n", "five\n"]
    assert joined(parts, [0, 1, 2, 3, 4]) == "".join(parts)
    assert joined(parts, [1, 3]) == f"{MARK}\ntwo. {MARK}\nfour\n{MARK}\n\n"
    assert joined(parts, []) == f"{MARK}\n\n"


@pytest.mark.parametrize(("question", "left"), [
    ("Where is the needle?", "Where is the needle?"),
    ("Where is the needle, in one word?\n\nAnswer:", "Where is the needle, in one word?\n\nAnswer:"),
])  # fmt: skip
def test_the_last_paragraph_is_the_question(question: str, left: str) -> None:
    asked = asked_in(f"{LINES}\n\n{question}")
    assert asked.question == left
    assert asked.head + asked.body + asked.question == f"{LINES}\n\n{question}"


def test_a_short_first_paragraph_stays_and_asks_where_it_ends_so() -> None:
    text = f"Which line has the word needle?\n\n{LINES}\n\nThe end of the file."
    asked = asked_in(text)
    assert asked.head == "Which line has the word needle?\n\n"
    assert asked.queries == ["The end of the file.", "Which line has the word needle?"]
    assert asked_in(f"Read this.\n\n{LINES}\n\nWhy is it so?").queries == ["Why is it so?"]


@pytest.mark.parametrize("text", [LINES, PROSE, "x" * 20_000, "\n" * 20_000, "a\n\n" * 5_000, ""])
def test_texts_without_a_last_paragraph_have_a_question_nevertheless(text: str) -> None:
    asked = asked_in(text)
    assert asked.head + asked.body + asked.question == text
    assert len(asked.question) <= 1_000 or not text.strip()


def test_a_fact_is_kept_with_its_question_and_beginning() -> None:
    fact = "the needle lies under the third stone\n"
    lines = LINES.splitlines(keepends=True)
    text = "".join(["Read this log.\n\n", *lines[:150], fact, *lines[150:], "\n\nWhere is the needle?"])
    short = shortened(text, 0.1, shared_words)
    assert fact in short
    assert short.startswith("Read this log.\n\n")
    assert short.endswith("\n\nWhere is the needle?")
    assert MARK in short
    assert len(short) < 0.12 * len(text)
    rest = [line for line in short.splitlines() if line and line != MARK]
    order = text.splitlines()
    assert [order.index(line) for line in rest] == sorted(order.index(line) for line in rest)


def test_a_given_question_leaves_the_first_paragraph_to_the_choice() -> None:
    text = f"A short first paragraph.\n\n{LINES}\n\nAnd 399?"
    asked = asked_in(text, "And 399?")
    assert (asked.head, asked.question, asked.queries) == ("", "And 399?", ["And 399?"])
    assert "line 399 of" in shortened(text, 0.05, shared_words, "And 399?")


def test_a_given_question_that_is_long_is_split_like_any_text() -> None:
    assert asked_in(f"One.\n\n{PROSE}", PROSE).question in PROSE[-1_000:]


def test_a_short_prompt_and_a_whole_share_change_nothing() -> None:
    def no_rank(query: str, parts: Sequence[str]) -> list[float]:
        raise AssertionError("nothing is to be scored")

    short = LINES[: LEAST_CHARS - 1]
    assert shortened(short, 0.1, no_rank) == short
    assert shortened(LINES, 1.0, no_rank) == LINES


@pytest.mark.parametrize("share", [0.05, 0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("times", [1, 10])
def test_the_share_is_met_for_prompts_of_any_length(share: float, times: int) -> None:
    """Reported of another compressor: the rate is missed for long prompts."""
    text = f"{LINES * times}\n\nWhere is line 007?"
    marks = shortened(text, share, shared_words).count(MARK) * (len(MARK) + 2)
    assert 0.9 * share * len(text) <= len(shortened(text, share, shared_words)) <= share * len(text) + marks


def test_the_end_of_a_text_is_chosen_like_the_rest() -> None:
    """Reported of another compressor: its last segment stays whole."""
    lines = LINES.splitlines(keepends=True)
    parts = [*lines[:5], *["nothing of note here\n"] * 395]
    short = shortened("".join([*parts, "\n\nwhich line of the file has words"]), 0.02, shared_words)
    assert "line 000" in short
    assert short.count("nothing of note") < 10


def test_words_and_sentences_are_not_cut() -> None:
    """Reported of another compressor: names are cut and joined."""
    short = shortened(f"{PROSE}\n\nWhat does sentence 77 tell?", 0.1, shared_words)
    kept = short.rpartition("\n\nWhat")[0].replace(MARK, "")
    assert {*re.findall(r"\S+", kept)} <= {*PROSE.split()}
    assert all(f"{one.strip()}." in PROSE for one in kept.split(".") if one.strip())


@pytest.mark.parametrize("text", ["", "Why?", "x" * 9_000])
def test_a_question_without_a_text_is_left_whole(text: str) -> None:
    """Reported of another compressor: an empty context is an IndexError."""
    assert shortened(text, 0.1, lambda query, parts: [0.0] * len(parts), text).endswith(text[-10:])


def test_one_line_of_json_keeps_a_part() -> None:
    """Reported of another compressor: a text of JSON leaves nothing, and the next step fails."""
    text = "{" + ",".join(f'"key{at}":{{"value":{at}}}' for at in range(2_000)) + "}"
    short = shortened(f"{text}\n\nWhat is key1777?", 0.05, shared_words)
    assert '"key1777":{"value":1777}' in short
    assert len(short) < 0.06 * len(text) + 200


def test_sentences_without_spaces_between_them_are_told_apart() -> None:
    """Reported of several splitters: Chinese text is one piece."""
    parts = parts_of("这是一个很长的句子讲述河流和城市。" * 100)
    assert len(parts) > 10
    assert all(part.endswith("。") for part in parts)


def test_a_text_of_line_ends_and_spaces_takes_no_time() -> None:
    """Reported of splitters by regular expressions: they go back and forth over blanks."""
    for text in ("\n \t" * 100_000 + "x", " " * 400_000 + "x", ". " * 200_000):
        assert "".join(parts_of(text)) == text
        assert asked_in(text).queries
