"""The native control beside Python's: the same queries, plans and estimates, to the bit."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from edgedec.control import CostCurve, DraftAnswer, Query, RoundTimes
from edgedec.core.tree import EMPTY, ROOT, DraftTree
from tests.control.simulate import CURVES
from tests.native.control_record import Recorder, called, same

STOP = 7
SHAPES = ("vnni", "flat", "vnni", "avx2", "steps", "linear")


class Drafter:
    """A drafter with habits of its own: what it costs, how often it is right and how sure it seems."""

    def __init__(self, name: str, dice: random.Random, plain: float) -> None:
        self.name, self._dice = name, dice
        self.right = dice.choice((0.02, 0.4, 0.8, 0.95))
        self.claims = dice.choice((None, 0.2, 0.6, 1.0))
        self.branches = dice.choice((1, 1, 2, 4))
        self.call = plain * dice.choice((0.0, 0.001, 0.02, 0.02, 0.3, 2.5))
        self.level = plain * dice.choice((0.0, 0.001, 0.01, 0.05, 0.4))
        self.reading = plain * dice.choice((0.0, 3.0, 30.0))
        self.peeks = dice.random() < 0.25
        self.pretrained = dice.random() < 0.3
        self.unread = True

    def answer(self, query: Query, truth: list[int]) -> DraftAnswer:
        """Draft around the tokens that will come."""
        tree = self._tree(query, truth)
        seconds = self.call + self.level * max(tree.depths(), default=0) + self.reading * self.unread
        self.unread = False
        seconds *= self._dice.lognormvariate(0.0, 0.1) * (12.0 if self._dice.random() < 0.02 else 1.0)
        return DraftAnswer(tree, seconds, self._dice.randrange(len(tree) + 2) if self.peeks else 0)

    def _tree(self, query: Query, truth: list[int]) -> DraftTree:
        dice = self._dice
        nodes: list[tuple[int, int, float]] = []
        level, reach = [ROOT], 1.0
        for token in truth[: query.limit]:
            prob = dice.random() if self.claims is None else self.claims
            reach *= prob
            if reach < query.floor or dice.random() < 0.05:
                break
            above, level = level[:2], []
            for parent in above:
                for branch in range(self.branches):
                    right = not branch and dice.random() < self.right
                    level.append(len(nodes))
                    stated = max(prob * dice.choice((1.0, 1.0, 0.5, 0.25)), 1e-3)
                    nodes.append((token if right else dice.randrange(10), parent, stated))
        if not nodes:
            return EMPTY
        tokens, parents, probs = zip(*nodes, strict=True)
        return DraftTree(tokens, parents, probs, (self.name,) * len(nodes))


def committed(fed: DraftTree, truth: list[int]) -> list[int]:
    """The tokens that a round commits: those drafted right, and one more; none behind a stop."""
    tokens: list[int] = []
    node: int | None = ROOT
    while node is not None and len(tokens) < len(truth):
        token = truth[len(tokens)]
        tokens.append(token)
        node = None if token == STOP else fed.child(node, token)
    return tokens


def play(seed: int, rounds: int, *, controlled: bool = True) -> Recorder:
    """Decode random text with random drafters on a restless machine."""
    dice = random.Random(f"control {seed}")
    plain = dice.choice((0.0004, 0.005, 0.3))
    shape = CURVES[dice.choice(SHAPES)]
    spread = dice.choice((0.0, 0.2))  # measured on a busy machine, a longer pass may seem to cost less
    points = {tokens: plain * cost * dice.lognormvariate(0.0, spread) for tokens, cost in shape.items()}
    drafters = {
        f"drafter-{at}": Drafter(f"drafter-{at}", dice, plain) for at in range(dice.choice((1, 2, 3, 3, 4)))
    }
    recorder = Recorder(
        CostCurve(points, old=dice.random() < 0.3) if controlled else None,
        list(drafters),
        dice.choice((3, 15, 40)),
        peeking=[name for name, one in drafters.items() if one.peeks],
        pretrained=lambda name: drafters[name].pretrained,
    )
    device = CostCurve(points)
    speed = 1.0
    recorder.begin([STOP])
    for _ in range(rounds):
        if dice.random() < 0.01:
            speed = dice.choice((0.3, 0.8, 1.0, 1.5, 4.0))
        if dice.random() < 0.02:
            recorder.begin([STOP, *range(100, 100 + dice.randrange(3))])
            for one in drafters.values():
                one.unread = True
        play_round(recorder, drafters, device, speed, dice)
    return recorder


def play_round(
    recorder: Recorder, drafters: dict[str, Drafter], device: CostCurve, speed: float, dice: random.Random
) -> None:
    truth = [dice.randrange(10) for _ in range(50)]
    asked = 0.0

    def ask(query: Query) -> DraftAnswer | None:
        nonlocal asked
        if dice.random() < 0.002:  # a drafter fails, which may be another one that is told something
            name = dice.choice(list(drafters))
            del drafters[name]
            recorder.drop(name)
        if query.name not in drafters:
            return None
        if dice.random() < 0.003:
            return DraftAnswer(EMPTY, 0.0)
        answer = drafters[query.name].answer(query, truth)
        answer = answer._replace(seconds=answer.seconds * speed)
        asked += answer.seconds
        return answer

    round = recorder.round(dice.choice((0, 1, 2, 15, 15, 15, 15, 40)))
    fed = EMPTY if round.resting else round.draft(ask)
    tokens = min(1 + len(fed), device.longest)
    took = device.seconds(tokens) * speed * dice.lognormvariate(0.0, 0.05)
    took *= 10.0 if dice.random() < 0.01 else 1.0
    verifying = 0.01 * took * dice.random()
    passing = None if dice.random() < 0.05 else took
    round.settle(committed(fed, truth), RoundTimes(passing, asked + 0.01 * took, verifying))


@pytest.mark.parametrize("seed", range(24))
def test_the_same_queries_plans_and_estimates(seed: int) -> None:
    same(play(seed, 250))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_thousands_of_rounds(seed: int) -> None:
    same(play(seed, 4000))


@pytest.mark.parametrize("seed", range(4))
def test_without_costs(seed: int) -> None:
    same(play(seed, 60, controlled=False))


def costs_of(*points: tuple[float, float]) -> int:
    """Make a control over a curve through ``points`` that has nothing to do; the result of the call."""
    script = np.array(
        [1, 15, 0, 0, len(points), *(number for point in points for number in point)], np.float64
    )
    return called(script, np.zeros(99))


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(2, 1.0)],
        [(0, 1.0), (1, 1.0)],
        [(1, 0.0)],
        [(1, -1.0)],
        [(1, math.nan)],
        [(1, 1.0), (4, math.inf)],
        [(1, 1.0), (1, 2.0)],
        [(1, 1.0), (2e9, 2.0)],
    ],
)
def test_curves_that_are_none(points: list[tuple[float, float]]) -> None:
    assert costs_of(*points) == -2
    assert costs_of((1, 1.0), (16, 2.0)) == 8


def test_a_curve_of_one_token_drafts_nothing() -> None:
    dice = random.Random(0)
    recorder = Recorder(CostCurve({1: 0.01}), ["drafter"], 15)
    drafters = {"drafter": Drafter("drafter", dice, 0.01)}
    recorder.begin([])
    for _ in range(40):
        play_round(recorder, drafters, CostCurve({1: 0.01}), 1.0, dice)
    assert not recorder.tally.drafted
    same(recorder)
