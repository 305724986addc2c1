"""draft/: the native engine drafts with a small model as Python's does."""

from __future__ import annotations

import random

import pytest

from edgedec.sampling import DrawParams
from tests.native.played import Case, Outcome, Request, compare, small_model
from tests.native.test_decode import COSTS, STEEP, random_params

NAMES = (("small",), ("lookup", "recycling", "small"), ("small", "lookup"))


def random_case(draw: random.Random) -> Case:
    """A target and a small model, which is often the same model, or has seen less of the text."""
    seed = draw.randrange(1 << 30)
    capacity, sharpness = draw.choice((100, 400, 700)), draw.choice((1.0, 4.0))
    other = draw.choice((seed, seed, draw.randrange(1 << 30)))
    small = small_model(
        other,
        sharpness=draw.choice((sharpness, 9.0)),
        capacity=draw.choice((16, 40, 300)),
        max_pass=draw.choice((4, 16, 128)),
        vocab_size=draw.choice((24, 24, 20, 30)),
    )
    return Case(
        draw.randrange(1 << 30),
        small_model(seed, sharpness=sharpness, capacity=capacity),
        draw.choice(NAMES),
        draw.choice((1, 4, 15)),
        draw.choice((None, COSTS, STEEP)),
        draw.random() < 0.5,
        small,
    )


def random_requests(draw: random.Random) -> list[Request]:
    text = [draw.randrange(24) for _ in range(draw.randrange(1, 40))]
    requests = []
    for _ in range(draw.randrange(1, 4)):
        if draw.random() < 0.3:
            text = text[: draw.randrange(1, len(text) + 1)]
        text = text + [draw.randrange(24) for _ in range(draw.randrange(1, 200))]
        cancel = draw.choice((None, None, 1, draw.randrange(1, 40)))
        requests.append(Request(text, random_params(draw), draw.choice((1, 7, 60)), cancel=cancel))
    return requests


def accepted(outcomes: list[Outcome]) -> int:
    return sum(step[3] == "small" for one in outcomes for step in one.steps)


def test_random_replies_are_the_same() -> None:
    draw = random.Random(1)
    outcomes = [one for _ in range(25) for one in compare(random_case(draw), random_requests(draw))]
    assert accepted(outcomes) > 50


@pytest.mark.slow
def test_a_thousand_random_conversations_are_the_same() -> None:
    draw = random.Random(2)
    outcomes = [one for _ in range(1000) for one in compare(random_case(draw), random_requests(draw))]
    assert accepted(outcomes) > 1000


def test_a_long_reply_makes_the_same_plans() -> None:
    for temperature in (0.0, 0.7):
        case = Case(
            3, small_model(5, sharpness=2.0, capacity=400), ("small",), costs=COSTS,
            draft=small_model(5, sharpness=2.0, capacity=200),
        )  # fmt: skip
        outcome = compare(case, [Request([1, 2, 3], DrawParams(temperature=temperature, seed=8), 300)])[0]
        assert len(outcome.steps) == 300
        assert accepted([outcome]) > 0
