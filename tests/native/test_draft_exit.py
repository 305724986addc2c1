"""draft/: the native engine drafts with the target's layers as Python's does, with the same plans."""

from __future__ import annotations

import random

import pytest

from edgedec.sampling import DrawParams
from tests.native.played import Case, Outcome, Request, compare, small_model
from tests.native.test_decode import COSTS, STEEP, random_params

EXITS = tuple(f"{kind}-{exit}" for kind in ("exit", "trim") for exit in (1, 2, 3, 4))


def random_case(draw: random.Random) -> Case:
    names = [*draw.sample(EXITS, draw.randrange(1, 3)), *draw.choice(((), ("lookup", "recycling")))]
    draw.shuffle(names)
    model = small_model(
        draw.randrange(1 << 30), sharpness=draw.choice((1.0, 4.0)), capacity=draw.choice((100, 400))
    )
    costs = draw.choice((None, COSTS, STEEP))
    return Case(
        draw.randrange(1 << 30), model, tuple(names), draw.choice((1, 4, 15)), costs, draw.random() < 0.5
    )


def random_requests(draw: random.Random) -> list[Request]:
    text = [draw.randrange(24) for _ in range(draw.randrange(1, 40))]
    requests = []
    for _ in range(draw.randrange(1, 4)):
        if draw.random() < 0.3:
            text = text[: draw.randrange(1, len(text) + 1)]
        text = text + [draw.randrange(24) for _ in range(draw.randrange(1, 30))]
        cancel = draw.choice((None, None, 1, draw.randrange(1, 40)))
        stops = frozenset({draw.randrange(24)} if draw.random() < 0.3 else ())
        requests.append(Request(text, random_params(draw), draw.choice((1, 7, 60)), stops, cancel))
    return requests


def accepted(outcomes: list[Outcome]) -> int:
    return sum(step[3] in EXITS for one in outcomes for step in one.steps)


def test_random_replies_are_the_same() -> None:
    draw = random.Random(1)
    outcomes = [one for _ in range(25) for one in compare(random_case(draw), random_requests(draw))]
    assert accepted(outcomes) > 100


def test_rows_of_a_trimmed_vocabulary_are_read_to_their_last_token() -> None:
    params = [DrawParams(temperature=1.3, typical=0.2, seed=seed) for seed in range(3)]
    case = Case(3, small_model(5, sharpness=1.0), ("trim-1", "trim-2"), 4)
    outcomes = compare(case, [Request([1, 2, 3], one, 30) for one in params])
    assert accepted(outcomes) > 3


@pytest.mark.slow
def test_a_thousand_random_conversations_are_the_same() -> None:
    draw = random.Random(2)
    outcomes = [one for _ in range(1000) for one in compare(random_case(draw), random_requests(draw))]
    assert accepted(outcomes) > 2000


def test_a_long_reply_makes_the_same_plans() -> None:
    for temperature in (0.0, 0.7):
        case = Case(
            3, small_model(5, sharpness=2.0, capacity=400), ("lookup", "trim-4", "exit-3"), costs=COSTS
        )
        outcome = compare(case, [Request([1, 2, 3], DrawParams(temperature=temperature, seed=8), 300)])[0]
        assert len(outcome.steps) == 300
