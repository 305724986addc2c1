"""Replies of a model with recurrent states: drafts, histories and batches change no token of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgedec.core.cache_kinds import States
from edgedec.core.forward import Forward
from edgedec.core.tree import DraftTree
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.sampling import DrawParams
from tests.fixtures.toy_recurrence import CONV, DELTA, VOCAB, toy_forward, toy_sequences, toy_spec

KINDS = pytest.mark.parametrize("kind", [DELTA, CONV], ids=["delta", "conv"])
GREEDY, DRAWN = DrawParams(), DrawParams(temperature=1.2, seed=5)


class Watched(Recycling):
    """Counts the tokens that it drafts."""

    drafted = 0
    longest = 0

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        tree = super().propose(limit, floor)
        self.drafted, self.longest = self.drafted + len(tree), max(self.longest, len(tree))
        return tree


def reply(engine: Engine, prompt: Sequence[int], count: int, params: DrawParams = GREEDY) -> list[int]:
    return [step.token for step in engine.generate(prompt, params, max_tokens=count, stop_ids=())]


def drafting(forward: Forward, limit: int = 40) -> Engine:
    return Engine(forward, speculation=Speculation([Lookup(), Watched()], limit=limit))


def text(count: int, seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCAB, count)]


@KINDS
@pytest.mark.parametrize("params", [GREEDY, DRAWN])
@pytest.mark.parametrize("seed", range(3))
def test_conversations_with_drafts(kind: States, params: DrawParams, seed: int) -> None:
    """Turns, replies that are cut off, prompts that go on elsewhere: each reply is that of a new engine."""
    spec, rng = toy_spec(kind), np.random.default_rng(seed)
    engine = drafting(toy_forward(spec))
    tokens = text(int(rng.integers(1, 90)), seed)
    for turn in range(8):
        if turn and rng.random() < 0.5:
            tokens = tokens[: int(rng.integers(1, len(tokens) + 1))]
        prompt = [*tokens, *text(int(rng.integers(1, 50)), 100 * seed + turn)][-300:]
        count = int(rng.integers(1, 40))
        expected = reply(Engine(toy_forward(spec)), prompt, count, params)
        assert reply(engine, prompt, count, params) == expected
        tokens = [*prompt, *expected]


def test_drafts_are_no_longer_than_what_can_be_taken_back() -> None:
    forward = toy_forward(toy_spec())
    watched = Watched()
    engine = Engine(forward, speculation=Speculation([watched], limit=60))
    reply(engine, text(60, 1), 150)
    assert watched.drafted > 100
    assert 15 < watched.longest <= DELTA.undone - 1


@KINDS
def test_a_batch_in_turns(kind: States) -> None:
    batch = toy_sequences(toy_spec(kind), 3)
    prompts = [text(40 + number, number) for number in range(3)]
    engines = [drafting(forward) for forward in batch.forwards]
    running = [
        engine.generate(prompt, GREEDY, max_tokens=30, stop_ids=())
        for engine, prompt in zip(engines, prompts, strict=True)
    ]
    found: list[list[int]] = [[], [], []]
    for _ in range(30):
        for number, steps in enumerate(running):
            found[number] += [step.token for step in [next(steps)]]
    assert found == [reply(Engine(toy_forward(toy_spec(kind))), prompt, 30) for prompt in prompts]


def test_a_prefix_of_another_conversation() -> None:
    batch = toy_sequences(toy_spec(), 2)
    first, second = (drafting(forward) for forward in batch.forwards)
    prompt = text(100, 2)
    said = reply(first, prompt, 20)
    for shared in (120, 119, 90, 50):
        follow = [*(prompt + said)[:shared], *text(9, shared)]
        held = second.adopt_prefix(first, shared)
        assert held in {shared, 119, 100 - DELTA.undone, 0}
        assert reply(second, follow, 15) == reply(Engine(toy_forward(toy_spec())), follow, 15)
