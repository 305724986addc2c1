"""A full cache that slides: which tokens each token sees, however they were fed, drafted and cut."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import ContextFullError, UnsupportedError
from edgedec.core.rows import Rows
from edgedec.core.tree import DraftTree, chain
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.eviction.sliding import Sliding
from edgedec.sampling import DrawParams
from tests.decode.test_engine import EVERY_KIND, GREEDY, tokens
from tests.decode.test_speculation import Drafting, random_trees
from tests.eviction.going_back import Turn, check_over_turns, turns
from tests.reference.sampling import DrawHistory, bound_after, draw
from tests.session.parrot import Parrot

CAPACITY, CONTEXT, SINKS, BLOCK = 16, 200, 4, 4


def sliding(*drafters: Drafter, capacity: int = CAPACITY, max_pass: int = 64, preamble: int = 0) -> Engine:
    forward = MarkovForward(capacity=capacity, max_pass=max_pass, context=CONTEXT)
    policy = Sliding(forward)
    policy.keep(preamble)
    speculation = Speculation(list(drafters)) if drafters else None
    return Engine(forward, speculation=speculation, policy=policy)


def missing(position: int, capacity: int = CAPACITY) -> int:
    """How many tokens the token at this position does not see."""
    return max(-(-(position + 1 - capacity) // BLOCK), 0) * BLOCK


def plainly(prompt: Sequence[int], params: DrawParams, n: int) -> list[int]:
    """The definition, for tokens that were never taken back: each is fed alone, and when there is no slot for
    it, the oldest four behind the sinks leave first.
    """
    forward, sequence = MarkovForward(capacity=CAPACITY, context=CONTEXT), list(prompt)
    bound: float | None = None
    for position in range(len(prompt) + n - 1):
        if forward.length - len(forward.evicted) == CAPACITY:
            forward.evict(SINKS, BLOCK)
        assert len(forward.evicted) == missing(position)
        head = forward.extend([sequence[position]], rows=Rows(last=True, full=True))
        if position + 1 >= len(prompt):
            history = DrawHistory(params, sequence, said=len(sequence) - len(prompt), bound=bound)
            sequence.append(draw(head, 0, params, len(sequence), history))
            if params.mirostat:
                bound = bound_after(head, 0, params, sequence[-1], history)
    return sequence[len(prompt) :]


@pytest.mark.parametrize("params", EVERY_KIND)
@pytest.mark.parametrize("prompt", [[5, 1, 4], list(range(16)), [*range(20)] * 3])
def test_the_tokens_are_those_of_the_definition(prompt: list[int], params: DrawParams) -> None:
    expected = plainly(prompt, params, 60)
    for max_pass in (1, 3, 64):
        assert tokens(sliding(max_pass=max_pass), prompt, params, 60) == expected
    exact = tokens(Engine(MarkovForward()), prompt, params, 60)
    kept = max(CAPACITY + 1 - len(prompt), 0)  # the token behind a full cache is the last that saw everything
    assert exact[:kept] == expected[:kept]
    assert exact != expected


@pytest.mark.parametrize("params", EVERY_KIND)
def test_drafts_change_no_token(params: DrawParams) -> None:
    prompt = [1, 2, 1, 2, 1]
    expected = plainly(prompt, params, 80)
    told = [*prompt, *expected]

    def replay(seen: list[int], limit: int) -> DraftTree:
        return chain(
            told[len(seen) : len(seen) + limit], [1.0] * len(told[len(seen) : len(seen) + limit]), "told"
        )

    seen: list[PassRecord] = []
    engine = sliding(Drafting(replay))
    engine._passes.observe = seen.append
    assert tokens(engine, prompt, params, 80) == expected
    assert sum(len(record.path) for record in seen) > 50  # right drafts, up to and across where tokens left
    assert all(missing(record.start) == missing(record.start + record.fed - 1) for record in seen)
    for drafters in ([random_trees(1)], [Lookup()], [Recycling(memory=1 << 16)], [random_trees(2), Lookup()]):
        assert tokens(sliding(*drafters), prompt, params, 80) == expected


@settings(max_examples=60, deadline=None)
@given(turns(9, 30, 20), st.integers(0, 9), st.integers(2, 24))
def test_over_turns_that_go_back_anywhere(turns: list[Turn], seed: int, capacity: int) -> None:
    plain = sliding(capacity=capacity, max_pass=random.Random(seed).randint(1, 9))
    check_over_turns(plain, sliding(random_trees(seed), Lookup(), capacity=capacity), turns, seed)


def test_what_is_resident_is_not_fed_again() -> None:
    seen: list[PassRecord] = []
    engine = sliding()
    engine._passes.observe = seen.append
    reply = tokens(engine, [1, 2, 3, 4, 5, 6], n=30)
    said = [1, 2, 3, 4, 5, 6, *reply]
    assert engine.policy is not None
    gap = engine.policy.gap
    assert gap == range(4, 24)
    assert engine.reusable([*said, 7]) == 35  # the last token of the reply was never fed
    assert engine.reusable(said[:25]) == gap.stop
    assert engine.reusable(said[:24]) == gap.start
    assert engine.reusable([1, 2, 9]) == 2
    seen.clear()
    tokens(engine, [*said, 7], n=1)
    assert (seen[0].start, seen[0].fed) == (35, 1)  # there was room for one: a block leaves, and the next one


def test_before_the_gap_all_is_exact_again() -> None:
    engine = sliding()
    tokens(engine, [1, 2, 3, 4, 5, 6], n=30)
    other = [1, 2, 3, 4, 9, 9]
    assert tokens(engine, other, n=10) == tokens(Engine(MarkovForward()), other, n=10)
    assert engine.policy is not None
    assert engine.policy.gap == range(0)
    assert engine.policy.tokens == 20


def test_a_preamble_stays_if_it_leaves_room() -> None:
    for preamble, first in ((3, 4), (6, 6), (10, 10), (11, 4)):
        engine = sliding(capacity=40, preamble=preamble)
        tokens(engine, [1, 2, 3], n=60)
        assert engine.policy is not None
        assert engine.policy.gap.start == first


def test_the_models_own_context_ends_it() -> None:
    engine = sliding()
    steps = list(engine.generate([1, 2, 3], GREEDY, max_tokens=1000, stop_ids=()))
    assert steps[-1].finish_reason == "length"
    assert steps[-1].position == CONTEXT - 1
    with pytest.raises(ContextFullError, match="200 tokens"):
        engine.generate([1] * CONTEXT, GREEDY, max_tokens=1, stop_ids=())


def test_it_is_said_once() -> None:
    engine = sliding()
    assert engine.policy is not None
    tokens(engine, [1, 2, 3], n=13)
    assert engine.policy.news() is None
    tokens(engine, [1, 2, 3], n=15)
    line = engine.policy.news()
    assert line is not None
    assert line.startswith("lossy (sinks+window)")
    assert "\n" not in line
    assert engine.policy.news() is None


def test_a_cache_that_cannot_slide_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no tokens can leave the KV cache of parrot"):
        Sliding(Parrot(lambda seen: 0, 10))
