"""A full cache that keeps what a draft attends to: a function of the text, however it was fed and drafted."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.rows import FloatArray, Rows
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling, lookup_ahead
from edgedec.draft.bridge import SameVocabulary
from edgedec.draft.model import ModelDrafter
from edgedec.eviction.speckv import NEIGHBOURS, SpecKV
from edgedec.sampling import DrawParams
from tests.decode.test_engine import EVERY_KIND, GREEDY, tokens
from tests.decode.test_speculation import VOCAB, random_trees
from tests.eviction.going_back import Turn, check_over_turns, turns
from tests.fixtures.nightly import diagonal, every
from tests.reference.sampling import DrawHistory, bound_after, draw
from tests.session.parrot import Parrot

CAPACITY, CONTEXT, SINKS, QUARTER = 64, 500, 4, 16
REACH = NEIGHBOURS // 2
PROMPTS = [[5, 1, 4], [*range(24)] * 2, [*range(20)] * 6]


class Minding(MarkovForward):
    """Minds that looking leaves the cache as it was."""

    was: tuple[int, list[int]] | None = None

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        assert (self.length, self._slots[: self.resident]) == self.was
        super().select(first, end, kept)


class Noting(SpecKV):
    def room(self, committed: Sequence[int]) -> int:
        if isinstance(self._forward, Minding):
            self._forward.was = self._forward.length, self._forward._slots[: self._forward.resident]
        return super().room(committed)


def speckv(*drafters: Drafter, capacity: int = CAPACITY, max_pass: int = 64, limit: int = 15) -> Engine:
    forward = Minding(capacity=capacity, max_pass=max_pass, context=CONTEXT)
    speculation = Speculation(list(drafters), limit=limit) if drafters else None
    policy = Noting(forward, speculation.ahead if speculation else lookup_ahead)
    return Engine(forward, speculation=speculation, policy=policy)


def policy_of(engine: Engine) -> SpecKV:
    assert isinstance(engine.policy, SpecKV)
    return engine.policy


def make_room(forward: MarkovForward, sequence: Sequence[int]) -> None:
    """The definition: a quarter of the cache, the newest tokens, are queries beside what may follow."""
    length, zone = forward.length, range(SINKS, forward.resident - QUARTER)
    known = list(sequence[length:])
    ahead = known[-QUARTER:]
    if len(known) < QUARTER:
        ahead = [*known, *lookup_ahead(sequence, QUARTER - len(known))]
    forward.rewind(length - QUARTER)
    scores = dict(enumerate(forward.attention([*sequence[length - QUARTER : length], *ahead])[0, 0]))
    forward.rewind(length)
    pooled = {
        slot: max(scores[at] for at in range(slot - REACH, slot + REACH + 1) if at in zone) for slot in zone
    }
    kept = sorted(sorted(zone, key=lambda slot: (-pooled[slot], slot))[: len(zone) - QUARTER])
    forward.select(zone.start, zone.stop, np.array(kept, dtype=np.intp).reshape(1, 1, -1))


def plainly(prompt: Sequence[int], params: DrawParams, n: int) -> list[int]:
    """Each token is fed alone; when a quarter of the cache is all that is free, room is made first."""
    forward = MarkovForward(capacity=CAPACITY, context=CONTEXT)
    sequence, bound = list(prompt), None
    for position in range(len(prompt) + n - 1):
        if forward.resident == CAPACITY - QUARTER:
            make_room(forward, sequence)
        head = forward.extend([sequence[position]], rows=Rows(last=True, full=True))
        if position + 1 >= len(prompt):
            history = DrawHistory(params, sequence, said=len(sequence) - len(prompt), bound=bound)
            sequence.append(draw(head, 0, params, len(sequence), history))
            if params.mirostat:
                bound = bound_after(head, 0, params, sequence[-1], history)
    return sequence[len(prompt) :]


@pytest.mark.parametrize(("prompt", "params"), diagonal(PROMPTS, EVERY_KIND))
def test_the_tokens_are_those_of_the_definition(prompt: list[int], params: DrawParams) -> None:
    expected = plainly(prompt, params, 120)
    for max_pass in (1, 3, 64):
        engine = speckv(max_pass=max_pass)
        assert tokens(engine, prompt, params, 120) == expected
        assert policy_of(engine).tokens >= 120 - CAPACITY
    exact = tokens(Engine(MarkovForward()), prompt, params, 120)
    kept = max(CAPACITY - QUARTER + 1 - len(prompt), 0)
    assert exact[:kept] == expected[:kept]
    assert exact != expected


@pytest.mark.parametrize("params", every(2, EVERY_KIND))
def test_drafts_change_no_token(params: DrawParams) -> None:
    prompt = [1, 2, 1, 2, 1]
    expected = plainly(prompt, params, 130)
    for drafters in ([random_trees(1)], [Lookup()], [Recycling(memory=1 << 16)], [random_trees(2), Lookup()]):
        for limit in (2, 15):
            assert tokens(speckv(*drafters, limit=limit), prompt, params, 130) == expected


class Seldom(ModelDrafter):
    """Is asked every fifth time alone, and has to read more then than it can at once: it skips some."""

    asked = 0

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        self.asked += 1
        return EMPTY if self.asked % 5 else super().propose(limit, floor)


def small(kind: type[ModelDrafter] = ModelDrafter) -> ModelDrafter:
    forward = MarkovForward(seed=3, sharpness=9.0, capacity=CONTEXT, max_pass=4)
    return kind("small", forward, SameVocabulary(VOCAB))


@pytest.mark.parametrize("params", every(3, EVERY_KIND))
def test_with_a_model_that_drafts_the_lookahead_is_its_own(params: DrawParams) -> None:
    """Whoever drafts beside it, however much, and however often it is asked for drafts."""
    prompt = [1, 2, 1, 2, 1]
    expected = tokens(speckv(small()), prompt, params, 130)
    assert params != GREEDY or expected != plainly(prompt, params, 130)
    for drafters, limit in (([small()], 1), ([small(Seldom)], 15), ([Lookup(), small()], 15)):
        assert tokens(speckv(*drafters, limit=limit), prompt, params, 130) == expected


@settings(max_examples=60, deadline=None)
@given(turns(60, 50, 40), st.integers(0, 9), st.integers(16, 80))
def test_over_turns_that_go_back_anywhere(turns: list[Turn], seed: int, capacity: int) -> None:
    plain = speckv(capacity=capacity, max_pass=random.Random(seed).randint(1, 9))
    check_over_turns(plain, speckv(random_trees(seed), Lookup(), capacity=capacity), turns, seed)


class Watched(MarkovForward):
    """Is stopped in the midst of the look that ``stops`` says."""

    stops = -1
    looks = 0

    def attention(self, tokens: Sequence[int]) -> FloatArray:
        self.looks += 1
        found = super().attention(tokens)
        if self.looks == self.stops:
            raise KeyboardInterrupt
        return found


@pytest.mark.parametrize("max_pass", [3, 64])
def test_stopped_while_it_looks(max_pass: int) -> None:
    """The reply goes on afterwards as if nothing had happened."""
    prompt = [1, 2, 1, 2, 1]
    expected = tokens(speckv(), prompt, n=150)
    for stops in (2, 4, 7):
        forward = Watched(capacity=CAPACITY, max_pass=max_pass, context=CONTEXT)
        forward.stops = stops
        engine = Engine(forward, policy=SpecKV(forward, lookup_ahead))
        said: list[int] = []
        steps = engine.generate(prompt, GREEDY, max_tokens=150, stop_ids=())
        with pytest.raises(KeyboardInterrupt):
            said.extend(step.token for step in steps)
        assert said == expected[: len(said)]
        assert forward.length <= len(engine.committed) == len(prompt) + len(said)
        rest = tokens(engine, engine.committed, n=150 - len(said))
        assert [*said, *rest] == expected


def test_the_end_of_a_prompt_is_what_is_looked_from() -> None:
    class Asked(MarkovForward):
        def attention(self, tokens: Sequence[int]) -> FloatArray:
            asked.append((self.length, list(tokens)))
            return super().attention(tokens)

    prompt, asked = [n % VOCAB for n in range(101)], list[tuple[int, list[int]]]()
    forward = Asked(capacity=CAPACITY, context=CONTEXT)
    engine = Engine(forward, policy=SpecKV(forward, lambda text, limit: [len(text) % VOCAB] * limit))
    tokens(engine, prompt, n=2)
    last = len(prompt) - QUARTER
    assert asked == [
        *((start, prompt[start : start + QUARTER] + prompt[last:]) for start in (32, 48, 64)),
        (80, prompt[80:] + [101 % VOCAB] * 11),
    ]


def test_what_is_resident_is_not_fed_again() -> None:
    engine = speckv()
    said = [1, 2, 3, *tokens(engine, [1, 2, 3], n=80)]
    gap = policy_of(engine).gap
    assert gap == range(SINKS, 64)  # when the 81st came, the last 16 of 48 slots were the window
    assert (policy_of(engine).missing, policy_of(engine).tokens) == (48, 48)
    assert engine.reusable([*said, 7]) == 82
    assert engine.reusable(said[: gap.stop + 1]) == gap.stop
    assert engine.reusable(said[: gap.stop]) == gap.start
    assert tokens(engine, said[:4], n=10) == tokens(Engine(MarkovForward()), said[:4], n=10)
    assert (policy_of(engine).gap, policy_of(engine).missing) == (range(0), 0)


def test_it_is_said_once() -> None:
    engine = speckv()
    tokens(engine, [1, 2, 3], n=20)
    assert policy_of(engine).news() is None
    tokens(engine, [1, 2, 3], n=60)
    line = policy_of(engine).news()
    assert line is not None
    assert line.startswith("lossy (speckv): the context was full; ")
    assert policy_of(engine).news() is None


def test_what_cannot_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no tokens can leave the KV cache of parrot"):
        SpecKV(Parrot(lambda seen: 0, 10), lookup_ahead)
    with pytest.raises(UsageError, match="at least 16 tokens, not 15"):
        SpecKV(MarkovForward(capacity=15), lookup_ahead)
