"""Conversations of agents that other servers read again: appended to, edited, restarted, in parallel.

After llama.cpp #22746 (appended to, and all read again), #24714 (an edited history), #24004 (a restart), and
ik_llama.cpp #2377 (checkpoints that parallel requests lose).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.sampling import DrawParams
from edgedec.session.saved_prefixes import prefixes_of
from tests.fixtures.tiny_models import run_tiny
from tests.session.test_saved_prefixes import CONTEXT, END, GENEROUS, Bundle, Side, bundle

__all__ = ["bundle"]  # a fixture
KINDS = ("qwen2", "gemma3", "phi3", "qwen35", "lfm2")
SLACK = 64
"""Tokens behind the place to go back to that are as quickly read again."""


class Talk:
    """Prompts of a conversation that grows by replies and messages."""

    def __init__(self, architecture: str, seed: int = 0) -> None:
        self.end, self.seed = END.get(architecture, 2), seed
        self.messages: list[list[int]] = [self.message(0, 250)]

    def message(self, number: int, length: int) -> list[int]:
        own = number * 31 + self.seed * 17
        return [7 + (at * at * 7 + own) % 240 for at in range(length - 1)] + [self.end]

    @property
    def prompt(self) -> list[int]:
        return [*(token for message in self.messages for token in message), 9, 10, 11]

    def goes_on(self, reply: list[int], length: int) -> None:
        self.messages += [[9, 10, 11, *reply, self.end], self.message(len(self.messages), length)]

    def before(self, number: int) -> int:
        """Tokens before a message."""
        return sum(map(len, self.messages[:number]))


@pytest.mark.parametrize("architecture", KINDS)
def test_a_conversation_that_is_appended_to_is_never_read_again(
    architecture: str, bundle: Bundle, tmp_path: Path
) -> None:
    side, talk = Side(bundle(architecture), tmp_path / "none"), Talk(architecture)
    before = 0
    for turn in range(6):
        prompt = talk.prompt
        assert side.engine.reusable(prompt) >= before - SLACK
        reply = [
            step.token for step in side.engine.generate(prompt, DrawParams(), max_tokens=20, stop_ids=())
        ]
        before = len(prompt)
        talk.goes_on(reply, 90 + 40 * turn)


@pytest.mark.parametrize("architecture", KINDS)
def test_an_edited_history_goes_on_before_the_edit(architecture: str, bundle: Bundle, tmp_path: Path) -> None:
    """A message of a long conversation is changed after a restart: what is before it is on the disk."""
    side, talk = Side(bundle(architecture), tmp_path), Talk(architecture)
    for turn in range(4):
        talk.goes_on(side.reply(talk.prompt, 20)[1], 150 + 100 * turn)
    side.reply(talk.prompt)
    for edited in (8, 6, 4):
        other = Talk(architecture, seed=edited)
        other.messages = [*talk.messages]
        other.messages[edited] = other.message(edited, 120)
        plain = Side(bundle(architecture), tmp_path / "none")
        after = Side(bundle(architecture), tmp_path)
        found, tokens = after.reply(other.prompt)
        assert found >= talk.before(edited) - SLACK
        assert tokens == plain.reply(other.prompt)[1]


@pytest.mark.parametrize("architecture", KINDS)
def test_more_conversations_than_sequences_lose_nothing(
    architecture: str, bundle: Bundle, tmp_path: Path
) -> None:
    """Four conversations take turns in two sequences: each goes on from what was saved of it."""
    runner = run_tiny(bundle(architecture), context=CONTEXT, conversations=2).runner
    prefixes = prefixes_of(runner, tmp_path, GENEROUS, print)
    assert prefixes is not None
    talks = [Talk(architecture, seed) for seed in range(4)]
    for talk in talks:
        talk.messages[0] = talk.message(0, 600)
    for turn in range(3):
        for number, talk in enumerate(talks):
            prompt, engine = talk.prompt, runner.engines[number % 2]
            with runner.reply(runner.engines.index(engine)):
                prefixes.fetch(engine, prompt)
                had = engine.reusable(prompt)
                steps = engine.generate(prompt, DrawParams(), max_tokens=8, stop_ids=())
                reply = [step.token for step in steps]
            prefixes.keep(engine, prompt, len(prompt), 1000.0)
            prefixes.wait()
            if turn:
                assert had >= talk.before(len(talk.messages) - 2) - SLACK
            talk.goes_on(reply, 100 + 30 * turn)
    prefixes.close()
    runner.close()
