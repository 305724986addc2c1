"""Several samples of one prompt: each is the reply alone with its own seed; one prompt is computed."""

from __future__ import annotations

import itertools
import random
import re
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.core.errors import EdgeDecError, UsageError
from edgedec.memory.footprint import MemoryFacts
from edgedec.sampling import DrawParams
from edgedec.session.conversations import Conversations
from edgedec.session.reply import Reply, Settings
from edgedec.session.samples import best_of, mean_logprob, settled, vote_of
from edgedec.session.tasks import Answer, RunningVote
from tests.fixtures.ready import Ready, chat_of
from tests.fixtures.tiny_models import run_tiny, tiny_bundle
from tests.session.test_conversations import several_of

TEXT = "The cat sat on the mat, and the dog sat on the cat. " * 2
WARM = DrawParams(temperature=1.0, seed=40)
KINDS = {
    "plain": WARM,
    "state": replace(WARM, mirostat=2.5, frequency_penalty=0.4, top_p=0.95),
    "last seed": replace(WARM, seed=(1 << 64) - 2),
}


def alone(model: Ready, params: DrawParams, count: int, *, raw: bool = True) -> list[list[int]]:
    """Each reply on a new engine, with a seed of its own."""
    found = []
    for sample in range(count):
        settings = Settings(replace(params, seed=(params.seed + sample) % (1 << 64)), max_tokens=24)
        chat = chat_of(model, settings)
        reply = chat.complete(TEXT) if raw else chat.reply(TEXT, final=True)
        reply.read()
        found.append(reply.tokens)
    return found


def replies(several: Conversations, count: int, **how: bool | int) -> list[Reply]:
    with several:
        answers = list(several.samples(TEXT, count, **{"raw": True, **how}))  # type: ignore[arg-type]
    for answer in answers:
        assert answer.error is None
    return [answer.reply for answer in answers if answer.reply]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
@pytest.mark.parametrize(("together", "count"), [(4, 4), (3, 7), (1, 3)])
def test_each_is_the_reply_alone_with_its_own_seed(
    folder: Path, architecture: str, kind: str, together: int, count: int
) -> None:
    model = run_tiny(tiny_bundle(folder, architecture), context=256)
    expected = alone(model, KINDS[kind], count)
    assert len({tuple(tokens) for tokens in expected}) > 1
    several = several_of(model, together, Settings(KINDS[kind], max_tokens=24), draft="lookup")
    found = replies(several, count)
    assert [reply.tokens for reply in found] == expected
    assert [reply.params.seed for reply in found] == [
        (KINDS[kind].seed + sample) % (1 << 64) for sample in range(count)
    ]
    assert several.chats[0].settings.params == KINDS[kind]


@pytest.mark.parametrize(("together", "count"), [(3, 3), (2, 5)])
def test_the_prompt_is_computed_once(folder: Path, together: int, count: int) -> None:
    model = run_tiny(tiny_bundle(folder), context=256)
    several = several_of(model, together, Settings(WARM, max_tokens=16))
    found = replies(several, count)
    prompt = len(found[0].prompt)
    assert [reply.reused for reply in found] == [0] + [prompt - 1] * (count - 1)


def test_turns_of_a_chat_are_sampled_too(folder: Path) -> None:
    model = run_tiny(tiny_bundle(folder), context=256)
    several = several_of(model, 2, Settings(WARM, max_tokens=24))
    found = replies(several, 3, raw=False)
    assert [reply.tokens for reply in found] == alone(model, WARM, 3, raw=False)


def test_no_sample_is_no_request(folder: Path) -> None:
    with (
        several_of(run_tiny(tiny_bundle(folder)), 2) as several,
        pytest.raises(UsageError, match="0 samples"),
    ):
        several.samples(TEXT, 0)


def test_a_prompt_that_does_not_fit_fails_each_sample_and_none_waits(folder: Path) -> None:
    with several_of(run_tiny(tiny_bundle(folder), context=32), 2) as several:
        answers = list(several.samples("x" * 500, 5, raw=True))
    assert len(answers) == 5
    assert all(isinstance(answer.error, EdgeDecError) for answer in answers)


def test_as_they_end_and_no_more_once_they_are_interrupted(folder: Path) -> None:
    with several_of(run_tiny(tiny_bundle(folder)), 2, Settings(WARM, max_tokens=30)) as several:
        seen = []
        for answer in several.samples(TEXT, 40, raw=True, as_done=True):
            seen.append(answer.number)
            several.interrupt()
    assert 1 <= len(seen) < 10
    assert not [one for one in threading.enumerate() if one.name.startswith("conversation")]


def test_a_memory_budget_has_room_for_their_log_probabilities(folder: Path) -> None:
    """Sums at temperature 1 take whole rows where the head adds up at another one."""
    params = DrawParams(temperature=0.7, top_k=8, seed=3)
    model = run_tiny(tiny_bundle(folder), context=128)
    several = several_of(model, 2, Settings(params, max_tokens=12), memory=2_000_000_000, sampling=params)
    budget = several._runner.budget
    assert budget is not None
    assert isinstance(budget.facts, MemoryFacts)
    assert budget.facts.drawing == 0
    found = replies(several, 3, logprobs=1)
    assert several._runner.budget is not None
    assert several._runner.budget.facts.drawing > 0
    for reply in found:
        assert mean_logprob(reply) == pytest.approx(
            sum(one.logprob for one in reply.logprobs) / len(reply.tokens)
        )
    means = [mean_logprob(reply) or 0.0 for reply in found]
    assert best_of(found) == means.index(max(means))


@pytest.mark.parametrize(
    ("texts", "pattern", "chosen", "answers"),
    [
        (["It is 12.", "So 13", "12!", "x"], None, 0, ("12", "13", "12", None)),
        (["1,000 metres", "$1000.", "7"], None, 0, ("1000", "1000", "7")),
        (["7", "8"], None, 0, ("7", "8")),
        (["7", "8", "8"], None, 1, ("7", "8", "8")),
        (["Answer: B", "answer A", "Answer: C or Answer: B"], r"Answer: (\w)", 0, ("B", None, "B")),
        (["yes no", "no", "yes"], "yes|no", 0, ("no", "no", "yes")),
    ],
)
def test_a_vote(texts: list[str], pattern: str | None, chosen: int, answers: tuple[str | None, ...]) -> None:
    vote = vote_of(texts, re.compile(pattern) if pattern else None)
    assert (vote.chosen, vote.answers) == (chosen, answers)
    assert vote.votes == answers.count(answers[chosen])


def test_a_vote_without_an_answer_is_one_line() -> None:
    for pattern, kind in ((None, "a number"), (re.compile("q+"), r"a match of 'q\+'")):
        with pytest.raises(EdgeDecError, match=f"none of 2 samples has {kind}"):
            vote_of(["a", "b"], pattern)


def outcome(answers: dict[int, str | None]) -> int | None:
    texts = [answers[number] or "" for number in sorted(answers)]
    return sorted(answers)[vote_of(texts, re.compile("[a-z]")).chosen] if any(texts) else None


def test_a_vote_is_settled_exactly_when_nothing_that_may_come_changes_the_chosen_sample() -> None:
    draw = random.Random(1)
    found = set()
    for _ in range(400):
        count = draw.randint(1, 7)
        there = draw.sample(range(count), max(draw.randint(0, count), count - 4))
        answers = {number: draw.choice(["a", "a", "b", "c", None]) for number in there}
        left = [number for number in range(count) if number not in answers]
        every = itertools.product(["a", "b", "c", "n", None], repeat=len(left))
        outcomes = {outcome(answers | dict(zip(left, said, strict=True))) for said in every}
        found.add(settled(answers, count))
        assert settled(answers, count) == (len(outcomes) == 1 and None not in outcomes), answers
    assert found == {True, False}


def test_a_vote_that_ends_early_chooses_as_the_whole_one_in_whatever_order_samples_end() -> None:
    draw = random.Random(2)
    stopped = []
    for _ in range(400):
        said = dict(enumerate(draw.choices(["a", "b", "c", None], [6, draw.randint(0, 6), 1, 1], k=8)))
        replies: Any = {at: SimpleNamespace(text=one or "", finish_reason="stop") for at, one in said.items()}
        vote = RunningVote(8, re.compile("[a-z]"))
        heard = vote.heard([Answer(at, replies[at]) for at in draw.sample([*said], 8)], lambda: None)
        there: dict[int, str | None] = {}
        while not vote.known and (one := next(heard, None)):
            there[one.number] = said[one.number]
        assert outcome(there) == outcome(said), said
        stopped.append(len(there) < 8)
    assert sum(stopped) > 200
