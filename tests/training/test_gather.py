"""A model answers prompts in batches: every reply is the one that it gives alone, and none is asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bundle.drafter_manifest import Target
from edgedec.sampling import DrawParams
from edgedec.session.conversations import Conversations
from edgedec.session.reply import Settings
from edgedec.training.gather import gather, unanswered
from edgedec.training.rollouts import RolloutStore
from tests.fixtures.ready import Ready, chat_of
from tests.fixtures.tiny_models import run_tiny
from tests.session.test_conversations import several_of

TEXTS = ["Once upon a time", "one two one two", "The cat sat", "Hello", "x y z"]


@pytest.fixture
def model(bundle: Path) -> Ready:
    return run_tiny(bundle)


def three(model: Ready) -> Conversations:
    return several_of(model, 3, Settings(DrawParams(), 12), context=300)


def target_of(model: Ready) -> Target:
    return Target.of(model.manifest)


def test_replies_are_those_of_the_model_alone(model: Ready, tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    with three(model) as several, store.writing(target_of(model)) as writer:
        found = gather(several, TEXTS, writer)
        assert (found.replies, found.refused, found.interrupted) == (5, 0, False)
        assert unanswered(TEXTS, writer, greedy=True) == []
        assert unanswered(["Hello", "new", "new"], writer, greedy=True) == ["new"]
    chat = chat_of(model, Settings(DrawParams(), 12))
    for text, rollout in zip(TEXTS, store, strict=True):
        chat.reset()
        reply = chat.reply(text, final=True)
        reply.read()
        assert rollout.reply == reply.tokens
        assert rollout.prompt == reply.prompt
        assert rollout.greedy


def test_it_ends_when_enough_tokens_are_kept(model: Ready, tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    with three(model) as several, store.writing(target_of(model)) as writer:
        found = gather(several, TEXTS, writer, most_tokens=13)
        assert found.replies < len(TEXTS)
        assert writer.tokens >= 13
        assert not found.interrupted
        assert gather(several, TEXTS, writer, most_tokens=13).replies == 0


def test_prompts_that_do_not_fit_are_counted(model: Ready, tmp_path: Path) -> None:
    with three(model) as several, RolloutStore(tmp_path).writing(target_of(model)) as writer:
        found = gather(several, ["no " * 900, "Hello"], writer)
    assert (found.replies, found.refused, found.interrupted) == (1, 1, False)


def test_replies_that_were_interrupted_are_left_for_the_next_time(model: Ready, tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    with three(model) as several, store.writing(target_of(model)) as writer:
        found = gather(several, TEXTS, writer, answered=lambda prompts, tokens: several.interrupt())
        assert found.interrupted
        left = unanswered(TEXTS, writer, greedy=True)
        assert 0 < len(left) < len(TEXTS)
        gather(several, left, writer)
        assert unanswered(TEXTS, writer, greedy=True) == []
    assert all(len(one.reply) == 12 or one.reply[-1] in model.loaded.spec.eos_ids for one in store)
