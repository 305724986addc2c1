"""The core accepts the nodes and tokens that the oracle of verification does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from edgedec.backends.head_rows import head_rows
from edgedec.core.errors import BackendError, UsageError
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY, DraftTree, chain
from edgedec.core_lib.engine import FULL, STOPPED, ReplyStart, Verified
from edgedec.decode.records import Verdict
from edgedec.sampling import DrawParams
from tests.reference import sampling
from tests.reference.verification import keyed, until
from tests.sampling.drawing import ENDLESS, Always, Mask, random_mask, random_params, spec_of
from tests.sampling.reply_handle import ReplyHandle


def rows_of(targets: Sequence[int], size: int = 12) -> HeadRows:
    """Rows whose best tokens are these."""
    logits = np.zeros((len(targets), size), np.float32)
    logits[np.arange(len(targets)), targets] = 5.0
    return head_rows(logits, 4, full=True)


def random_tree(rng: np.random.Generator) -> DraftTree:
    """A tree of few different tokens, so that paths are long and siblings repeat a token."""
    count = int(rng.integers(0, 24))
    parents = [int(rng.integers(-1, node)) if rng.random() < 0.6 else node - 1 for node in range(count)]
    tokens = rng.integers(0, 3, count).tolist()
    return DraftTree(tuple(tokens), tuple(parents), (1.0,) * count, ("a",) * count)


@pytest.mark.parametrize("seed", range(4))
def test_random_walks_are_the_oracles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    accepted = 0
    for _ in range(200):
        tree, stop_ids = random_tree(rng), rng.integers(0, 9, int(rng.integers(0, 3))).tolist()
        targets, most = rng.integers(0, 3, len(tree) + 1).tolist(), int(rng.integers(1, 8))
        whole = keyed(tree, lambda node, said, targets=targets: targets[node + 1])  # type: ignore[misc]
        expected = until(whole, stop_ids, most)
        found = ReplyHandle(DrawParams(), spec_of(12), ReplyStart(7 + most, stop_ids=stop_ids)).verdict_on(
            tree, rows_of(targets), 7
        )
        assert Verdict(tuple(found.path), tuple(found.tokens)) == expected
        end = STOPPED if expected.tokens[-1] in stop_ids else FULL if len(expected.tokens) == most else 0
        assert found.end == end
        accepted += len(found.path)
    assert accepted > 100


def test_a_row_is_read_where_its_node_is_accepted_and_nowhere_else() -> None:
    """A row of no numbers fails the walk that reaches it."""
    tree, rows = chain([1, 2], [1.0, 1.0], "a"), rows_of([1, 2, 3])
    rows.values[1, 0] = np.nan
    handle = ReplyHandle(DrawParams(), spec_of(12), ReplyStart(ENDLESS))
    with pytest.raises(BackendError, match="best logit"):
        handle.verdict_on(tree, rows, 0)
    assert handle.verdict_on(chain([5, 2], [1.0, 1.0], "a"), rows, 0).tokens == [1]


def test_a_handle_refuses_what_is_no_pass_of_its_reply() -> None:
    handle = ReplyHandle(DrawParams(), spec_of(12), ReplyStart(9))
    with pytest.raises(UsageError, match="one row"):
        handle.verdict_on(EMPTY, rows_of([1, 2]), 3)
    with pytest.raises(UsageError, match="over"):
        handle.verdict_on(EMPTY, rows_of([1]), 9)
    tree = object.__new__(DraftTree)
    for name, value in (("tokens", (1,)), ("parents", (0,)), ("probs", (1.0,)), ("sources", ("a",))):
        object.__setattr__(tree, name, value)
    with pytest.raises(UsageError, match="precedes"):
        handle.verdict_on(tree, rows_of([1, 2]), 3)
    assert handle.verdict_on(EMPTY, rows_of([4]), 3).tokens == [4]


class Round:
    """One round of a reply, drawn by definition: each token after the history with those before it."""

    def __init__(self, rng: np.random.Generator) -> None:
        size = int(rng.integers(8, 40))
        self.params = random_params(rng, size)
        self.prompt = rng.integers(0, size, int(rng.integers(1, 30))).tolist()
        self.said = int(rng.integers(0, len(self.prompt)))
        self.bound = float(rng.uniform(1.0, 9.0)) if rng.random() < 0.5 else None
        self.size, self.rng = size, rng
        self.mask = random_mask(rng, size) if rng.random() < 0.4 else None
        self.stop_ids = rng.integers(0, size, 1).tolist()

    def run(self) -> None:
        """Compare some rounds of the core, and what it commits, with the definition."""
        params, said, bound = self.params, list(self.prompt), self.bound
        start = ReplyStart(len(said) + 9, said, self.said, bound, self.stop_ids)
        handle = ReplyHandle(params, spec_of(self.size), start, Always(self.mask) if self.mask else None)
        replied = self.said
        for _ in range(4):
            tree = random_tree(self.rng)
            rows = self._rows(len(tree) + 1)
            expected, bounds = self._expected(tree, rows, said, replied, bound)
            found: Verified = handle.verdict_on(tree, rows, len(said))
            assert (*found.path, *found.tokens) == (*expected.path, *expected.tokens), params.summary()
            assert list(found.bounds or ()) == bounds[: len(found.tokens)], params.summary()
            for at, token in enumerate(found.tokens):
                bound = found.bounds[at] if found.bounds else None
                handle.commit(token, bound)
                said.append(token)
                replied += 1
            if found.end:
                assert said[-1] in self.stop_ids or len(said) == len(self.prompt) + 9
                return

    def _rows(self, count: int) -> HeadRows:
        logits = (self.rng.standard_normal((count, self.size)) * 1.5).astype(np.float32)
        logits[:, :3] += 3.0  # tokens of the drafts
        return head_rows(logits, 8, full=True)

    def _expected(
        self, tree: DraftTree, rows: HeadRows, said: list[int], replied: int, bound: float | None
    ) -> tuple[Verdict, list[float]]:
        bounds: list[float] = []

        def choose(node: int, accepted: Sequence[int]) -> int:
            tokens = [*said, *accepted]
            before = bounds[-1] if bounds else bound
            history = sampling.DrawHistory(self.params, tokens, said=replied + len(accepted), bound=before)
            token = sampling.draw(rows, node + 1, self.params, len(tokens), history, self.mask)
            if history.bound is not None:
                bounds.append(sampling.bound_after(rows, node + 1, self.params, token, history, self.mask))
            return token

        left = len(self.prompt) + 9 - len(said)
        return until(keyed(tree, choose), self.stop_ids, left), bounds


@pytest.mark.parametrize("block", range(4))
def test_two_hundred_random_replies_are_the_oracles(block: int) -> None:
    """Tokens and bounds, bit for bit: all warpers, penalties, bias, mirostat and masks, and random trees."""
    for seed in range(50):
        Round(np.random.default_rng([block, seed])).run()


class Walk:
    """A grammar that takes these tokens and no others, one after the other; some are forced."""

    def __init__(self, text: Sequence[int], forced: Sequence[int] = ()) -> None:
        self.text, self._forced, self.at, self.asked = list(text), set(forced), 0, 0

    def follow(self, tokens: Sequence[int]) -> bool:
        assert list(tokens) == self.text[: len(tokens)]
        self.at = len(tokens)
        return self.at == len(self.text)

    def forced(self) -> Sequence[int]:
        return self.text[self.at : self.at + 1] if self.at in self._forced else ()

    def permits(self, token: int) -> bool:
        self.asked += 1
        return token == self.text[self.at]

    def bits(self) -> np.ndarray:
        return Mask([self.text[self.at]], 12).bits()


@pytest.mark.parametrize("params", [DrawParams(), DrawParams(temperature=0.9, top_k=3, seed=2)], ids=str)
def test_nothing_follows_the_token_that_finishes_a_grammar(params: DrawParams) -> None:
    walk = Walk([4, 5, 6])
    handle = ReplyHandle(params, spec_of(12), ReplyStart(ENDLESS), walk)
    tree = chain([4, 5, 6, 7], [1.0] * 4, "a")
    found = handle.verdict_on(tree, rows_of([1, 1, 1, 1, 1]), 0)
    assert (found.path, found.tokens, found.end) == ([0, 1, 2], [4, 5, 6], STOPPED)
    short = handle.verdict_on(tree.first(2), rows_of([1, 1, 1]), 0)
    assert (short.tokens, short.end) == ([4, 5, 6], STOPPED)
    assert handle.verdict_on(tree.first(1), rows_of([1, 1]), 0).end == 0


def test_forced_tokens_are_not_drawn() -> None:
    walk = Walk([4, 5, 6], forced=[0, 1])
    rows = rows_of([1, 1, 6])
    rows.values[:2] = np.nan  # nobody looks
    found = ReplyHandle(DrawParams(), spec_of(12), ReplyStart(ENDLESS), walk).verdict_on(
        chain([4, 5], [1.0] * 2, "a"), rows, 0
    )
    assert found.tokens == [4, 5, 6]
    assert walk.asked == 1


def test_an_error_of_a_grammar_ends_the_walk() -> None:
    class Failing(Walk):
        def forced(self) -> Sequence[int]:
            if self.at:
                raise KeyError("it is broken")
            return super().forced()

    handle = ReplyHandle(DrawParams(), spec_of(12), ReplyStart(ENDLESS), Failing([4, 5, 6]))
    with pytest.raises(KeyError, match="broken"):
        handle.verdict_on(chain([4, 5], [1.0] * 2, "a"), rows_of([1, 1, 1]), 0)
    with pytest.raises(KeyError, match="broken"):  # and once more
        handle.verdict_on(chain([4, 5], [1.0] * 2, "a"), rows_of([1, 1, 1]), 0)
    assert handle.verdict_on(EMPTY, rows_of([4]), 0).tokens == [4]


def test_rows_of_another_vocabulary_than_the_grammars_are_refused() -> None:
    handle = ReplyHandle(DrawParams(), spec_of(13), ReplyStart(ENDLESS), Always(Mask([1], 13)))
    with pytest.raises(UsageError, match="vocabulary"):
        handle.verdict_on(EMPTY, rows_of([1]), 0)
    assert replace(rows_of([1]), logits=None).logits is None
