"""Drafts of models whose experts are read from a disk: never slower, and a gain where text repeats."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import pytest

from edgedec.control import BatchCosts, CostCurve, EnergyCosts, StreamedCosts
from edgedec.core.experts import Experts, StoreCounts
from edgedec.core.tree import DraftTree
from edgedec.decode.passes import PassTime
from edgedec.decode.speculation import Speculation
from tests.control.simulate import AVX2, LONGEST, NO_ROWS, Guesser, curve, following, rounds
from tests.fixtures.nightly import diagonal
from tests.fixtures.rounds import begin_round

LAYERS, COUNT, CHOSEN = 8, 32, 4
EXPERTS = Experts(LAYERS, COUNT, CHOSEN, 64, 1 << 20, LAYERS * COUNT << 20)
SECOND = 0.01
"""Seconds of computing a token."""


@cache
def by_token(token: int) -> list[set[int]]:
    """The same token takes the same experts, those of different tokens have nothing to do with each other."""
    dice = random.Random(token)
    return [set(dice.sample(range(COUNT), CHOSEN)) for _ in range(LAYERS)]


def waits(costs: StreamedCosts, tokens: int) -> float:
    """Seconds of a pass that are no computing."""
    curve = costs._needs
    assert isinstance(curve, CostCurve)
    return costs.seconds(tokens) - curve.seconds(tokens)


@dataclass
class Disk:
    """A machine that reads experts which are not among the ``slots`` used last, ``read`` seconds each."""

    slots: int
    read: float
    now: float = 0.0
    resident: dict[tuple[int, int], None] = field(default_factory=dict)
    costs: CostCurve = field(default_factory=lambda: curve(AVX2, SECOND))
    dice: random.Random = field(default_factory=lambda: random.Random(1))

    def clock(self) -> float:
        return self.now

    def run(self, tokens: Iterable[int]) -> PassTime:
        fed = list(tokens)
        wanted = {(layer, one) for token in fed for layer, some in enumerate(by_token(token)) for one in some}
        missed = [one for one in wanted if one not in self.resident]
        for one in wanted:
            self.resident.pop(one, None)
            self.resident[one] = None
        while len(self.resident) > self.slots:
            self.resident.pop(next(iter(self.resident)))
        waited = self.read * len(missed) * self.dice.lognormvariate(0.0, 0.2)
        seconds = self.costs.seconds(len(fed)) * self.dice.lognormvariate(0.0, 0.1) + waited
        self.now += seconds
        read = StoreCounts(len(wanted), len(wanted) - len(missed), len(missed) << 20, waited)
        return PassTime(seconds, read)


def decoded(text: list[int], disk: Disk, right: float | None) -> float:
    """Seconds to decode ``text``; None: without drafts."""
    if right is None:
        for token in text:
            disk.run([token])
        return disk.now
    costs = StreamedCosts(curve(AVX2, SECOND), EXPERTS, disk.slots / EXPERTS.total)
    guesser = Wrong(text, disk, lambda at: right, right)  # type: ignore[arg-type]
    speculation = Speculation([guesser], costs, clock=disk.clock)
    speculation.begin([], 0)
    rounds(speculation, text, lambda at, tree: disk.run([text[at], *tree.tokens]))
    return disk.now


class Wrong(Guesser):
    """A guesser whose wrong tokens are tokens of the vocabulary, with experts of their own."""

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        tree = super().propose(limit, floor)
        wrong = [
            1000 + 17 * self._at + place if token < 0 else token for place, token in enumerate(tree.tokens)
        ]
        return DraftTree(tuple(wrong), tree.parents, tree.probs, tree.sources)


def text_of(words: int, length: int = 1500) -> list[int]:
    """Text of so many different tokens: of few, experts come again."""
    dice = random.Random(7)
    return [dice.randrange(words) for _ in range(length)]


WORDS, READS = [3, 20, 1000], [0.0002, 0.002, 0.01]


@pytest.mark.parametrize(("words", "read"), diagonal(WORDS, READS))
@pytest.mark.parametrize("right", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("slots", [64, 160])
def test_never_slower_however_dear_reads_are(slots: int, right: float, words: int, read: float) -> None:
    text = text_of(words)
    plain = decoded(text, Disk(slots, read), None)
    assert plain / decoded(text, Disk(slots, read), right) >= 0.97


@pytest.mark.parametrize(("read", "gain"), [(0.0002, 2.2), (0.002, 1.7), (0.01, 1.1)])
def test_drafts_pay_where_text_repeats(read: float, gain: float) -> None:
    """Its experts are in memory: a curve of passes over texts that do not repeat would never draft."""
    text = text_of(3)
    assert decoded(text, Disk(64, read), None) / decoded(text, Disk(64, read), 0.97) >= gain


def streamed(resident: float = 0.25) -> StreamedCosts:
    return StreamedCosts(curve(AVX2, SECOND), EXPERTS, resident)


def test_passes_wait_for_the_reads_that_passes_had() -> None:
    costs = streamed()
    for _ in range(60):
        costs.expected(1, SECOND + 0.1, StoreCounts(32, 12, 20 << 20, 0.1))
        costs.expected(3, SECOND + 0.15, StoreCounts(96, 66, 30 << 20, 0.15))
    assert waits(costs, 1) == pytest.approx(0.1, rel=0.05)
    assert waits(costs, 1) < waits(costs, 3) == pytest.approx(0.15, rel=0.2)
    assert costs.seconds(3) == pytest.approx(1.59 * SECOND + waits(costs, 3))
    assert costs.plain == costs.seconds(1)


def test_a_drafted_token_adds_fewer_reads_than_the_one_before() -> None:
    costs = streamed()
    more = [waits(costs, tokens + 1) - waits(costs, tokens) for tokens in range(1, LONGEST)]
    assert all(later < 0.9 * earlier for earlier, later in pairwise(more))


def test_the_curve_learns_of_computing_alone() -> None:
    """Reads that come and go are neither the machine's speed nor a cost of more tokens."""
    costs, dice = streamed(), random.Random(3)
    for _ in range(200):
        tokens, waited = dice.choice([1, 4]), dice.choice([0.0, 0.2])
        seconds = costs._needs.seconds(tokens) + waited
        read = StoreCounts(32 * tokens, 32 * tokens - int(100 * waited), int(100 * waited) << 20, waited)
        assert costs.observe(tokens, costs.expected(tokens, seconds, read))
    assert costs.drift < 0.02
    assert costs.measured() == pytest.approx(curve(AVX2, SECOND).measured(), rel=0.02)


def test_a_pass_answers_for_its_own_reads() -> None:
    """The price is what is expected; the account of what drafts may lose has what happened."""
    costs = streamed(resident=0.99)
    guesser = Guesser([7] * 99, Disk(64, 0.0), lambda at: 1.0)  # type: ignore[arg-type]
    speculation = Speculation([guesser], costs)
    speculation.begin([], 0)
    round = begin_round(speculation, 8)
    assert len(round.tree)
    waited = 30.0 * costs.plain
    time = PassTime(waited + SECOND, StoreCounts(99, 0, 99 << 20, waited))
    round.settle(NO_ROWS, following(round.tree, [8]), time)
    for _ in range(100):  # the account is empty
        round = begin_round(speculation, 8)
        assert not len(round.tree)
        round.settle(NO_ROWS, following(round.tree, [7]), PassTime(SECOND, StoreCounts(64, 63, 0, 0.0)))


def test_conversations_share_the_waits_of_their_passes() -> None:
    table = streamed()
    batch = BatchCosts(table, 2)
    for _ in range(60):
        batch.passed({0: 1, 1: 1}, 2 * SECOND + 0.3, StoreCounts(64, 4, 60 << 20, 0.3))
    assert batch.views[0].plain == pytest.approx(table.seconds(2) / 2)
    assert waits(table, 2) == pytest.approx(0.3, rel=0.1)


def test_joules_are_of_the_waits_that_are_expected() -> None:
    costs = EnergyCosts(streamed(), {1: 10.0, LONGEST: 10.0})
    seconds = costs.expected(1, SECOND + 9.0, StoreCounts(32, 32, 0, 9.0))
    assert costs.price(seconds) == pytest.approx(10.0 * (SECOND + (costs.plain / 10.0 - SECOND)))
