"""Conversations that go back anywhere, for caches that tokens leave."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from edgedec.decode.engine import Engine
from edgedec.sampling import DrawParams
from tests.decode.test_engine import tokens

Turn = tuple[list[int], int, int]
"""Tokens that come on top, those taken back before, and how many are to be said."""


def turns(more: int, back: int, count: int) -> st.SearchStrategy[list[Turn]]:
    """Up to five turns with at most so many of each."""
    top = st.lists(st.integers(0, 3), min_size=1, max_size=more)
    return st.lists(st.tuples(top, st.integers(0, back), st.integers(1, count)), min_size=1, max_size=5)


def check_over_turns(plain: Engine, drafting: Engine, turns: Sequence[Turn], seed: int) -> None:
    """Some of what was said is taken back, some tokens come on top: with drafts and without, the same."""
    params = DrawParams(temperature=0.6, top_k=4, seed=seed)
    said: list[int] = []
    for more, back, count in turns:
        said = [*said[: max(len(said) - back, 0)], *more]
        reply = tokens(plain, said, params, count)
        assert tokens(drafting, said, params, count) == reply
        said += reply
        left = []
        for engine in (plain, drafting):
            policy = engine.policy
            assert policy is not None
            assert engine.committed == said
            assert policy._forward.resident <= policy.slots
            left.append((policy.gap, policy.missing))
        assert left[0] == left[1]
