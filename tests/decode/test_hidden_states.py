"""Drafters that need the target's hidden states are told those of all committed tokens, and no others."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.backends.fake import MarkovForward
from edgedec.core.rows import ALL_ROWS, FloatArray, Rows
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.eviction.sliding import Sliding
from edgedec.sampling import DrawParams
from tests.decode.test_engine import EVERY_KIND, plainly, tokens
from tests.decode.test_speculation import VOCAB, Drafting, every_second_right, random_trees


class Hearing(Drafting):
    """Drafts as ``other`` does, and keeps the hidden states it was told by position."""

    taps = (0, 2)

    def __init__(self, other: Drafting) -> None:
        super().__init__(other._guess, "hearing")
        self.told: dict[int, FloatArray] = {}

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        super().begin(tokens, kept)
        self.told = {place: state for place, state in self.told.items() if place < kept}

    def read(self, start: int, hidden: FloatArray) -> None:
        assert hidden.shape[1] == len(self.taps)
        for place, state in enumerate(hidden, start):
            if place in self.told:  # told again: it is the same token
                np.testing.assert_array_equal(self.told[place], state)
            self.told[place] = state.copy()

    def check(self, committed: Sequence[int], first: int = 0) -> None:
        """All tokens but the last have their hidden states; ``first``: the first that has."""
        rows = Rows(indices=(), taps=self.taps)
        right = MarkovForward(max_pass=256).extend(committed, rows=rows).hidden
        assert right is not None
        assert sorted(self.told) == list(range(first, len(committed) - 1))
        for place, state in self.told.items():
            np.testing.assert_array_equal(state, right[place])


def hearing(seed: int, params: DrawParams) -> Hearing:
    return Hearing(random_trees(seed) if seed % 2 else every_second_right(params))


@settings(max_examples=40)
@given(st.integers(0, 1000), st.sampled_from(EVERY_KIND), st.integers(2, 9))
def test_hidden_states_are_right_after_pieces_of_a_prompt_and_after_trees(
    seed: int, params: DrawParams, max_pass: int
) -> None:
    generator = random.Random(seed)
    prompt = [generator.randrange(VOCAB) for _ in range(generator.randint(1, 30))]
    drafter = hearing(seed, params)
    engine = Engine(MarkovForward(max_pass=max_pass), speculation=Speculation([drafter], limit=6))
    assert tokens(engine, prompt, params, 12) == plainly(prompt, params, 12)
    drafter.check(engine.committed)


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_hidden_states_are_right_over_turns_that_keep_change_and_leave_off(seed: int) -> None:
    generator, params = random.Random(seed), EVERY_KIND[seed % len(EVERY_KIND)]
    drafter = hearing(seed, params)
    engine = Engine(MarkovForward(max_pass=8), speculation=Speculation([drafter], limit=6))
    prompt = [1, 2, 3]
    for _ in range(4):
        reply = engine.generate(prompt, params, max_tokens=10, stop_ids=())
        for _ in range(generator.randint(1, 12)):
            next(reply, None)
        reply.close()  # in the midst of a round, perhaps
        kept = engine.committed[: generator.randint(1, len(engine.committed))]
        prompt = [*kept, *(generator.randrange(VOCAB) for _ in range(generator.randint(0, 9)))]
    assert tokens(engine, prompt, params, 9) == plainly(prompt, params, 9)
    drafter.check(engine.committed)


def test_after_another_took_the_cache_over_hidden_states_begin_later() -> None:
    forward = MarkovForward(max_pass=8)
    drafter = hearing(0, DrawParams())
    engine = Engine(forward, speculation=Speculation([drafter], limit=6))
    text = [1, 2, 3, 4, 5]
    forward.extend(text, rows=ALL_ROWS)
    engine.adopt(text)
    tokens(engine, [*text, 6, 7], n=5)
    drafter.check(engine.committed, first=len(text))


def test_hidden_states_are_told_where_tokens_leave_the_cache() -> None:
    forward = MarkovForward(capacity=24, max_pass=8, context=256)
    drafter = Hearing(random_trees(3))
    engine = Engine(forward, speculation=Speculation([drafter], limit=4), policy=Sliding(forward))
    tokens(engine, [1, 2, 3, 4, 5], n=60)
    assert sorted(drafter.told) == list(range(len(engine.committed) - 1))


class Asked(MarkovForward):
    """Counts passes that were asked for hidden states."""

    asked = 0

    def extend(self, tokens, *, parents=None, rows=ALL_ROWS):  # type: ignore[no-untyped-def]
        self.asked += bool(rows.taps)
        return super().extend(tokens, parents=parents, rows=rows)


def test_hidden_states_are_computed_for_drafters_that_need_them_only() -> None:
    forward = Asked()
    tokens(Engine(forward, speculation=Speculation([random_trees(1)])), [1, 2, 3])
    assert forward.passes
    assert not forward.asked


def test_a_drafter_that_fails_at_hidden_states_is_dropped_and_not_told_any_more() -> None:
    class Failing(Hearing):
        def read(self, start: int, hidden: FloatArray) -> None:
            raise RuntimeError("no room")

    lines: list[str] = []
    forward = Asked(max_pass=4)
    engine = Engine(forward, speculation=Speculation([Failing(random_trees(1))], notice=lines.append))
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert tokens(engine, prompt) == plainly(prompt, DrawParams(), 12)
    assert lines == ["drafter hearing failed and is off: no room"]
    assert forward.asked == 3 < forward.passes


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_nothing_is_told_behind_the_token_that_ends_a_reply(stop: int) -> None:
    params = DrawParams()
    text = plainly([1, 2], params, 9)
    drafter = Hearing(every_second_right(params))
    engine = Engine(MarkovForward(), speculation=Speculation([drafter], limit=6))
    list(engine.generate([1, 2], params, max_tokens=9, stop_ids={text[stop]}))
    assert max(drafter.told) < len(engine.committed)
