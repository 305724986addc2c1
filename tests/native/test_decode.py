"""decode/: the native engine makes the same replies, passes, drafts and plans as Python's."""

from __future__ import annotations

import random

import pytest

from edgedec.sampling import DrawParams
from tests.native.played import Case, Outcome, Request, compare, small_model

COSTS = {1: 0.005, 2: 0.0052, 4: 0.006, 8: 0.0065, 16: 0.008}
STEEP = {1: 0.005, 2: 0.01, 4: 0.02, 8: 0.04, 16: 0.08}


def random_params(draw: random.Random) -> DrawParams:
    if draw.random() < 0.4:
        return DrawParams()
    off: dict[str, float] = {"temperature": draw.uniform(0.1, 1.5)}
    ranges = {
        "top_k": lambda: draw.randrange(1, 24), "top_p": lambda: draw.uniform(0.1, 1.0),
        "min_p": lambda: draw.uniform(0.0, 0.3), "top_n_sigma": lambda: draw.uniform(0.5, 2.0),
        "typical": lambda: draw.uniform(0.2, 1.0), "eta": lambda: draw.uniform(0.0, 0.1),
        "top_h": lambda: draw.uniform(0.3, 1.0), "edt": lambda: draw.uniform(0.0, 1.0),
        "mirostat": lambda: draw.uniform(1.0, 4.0), "repetition_penalty": lambda: draw.uniform(0.8, 1.3),
        "frequency_penalty": lambda: draw.uniform(-1.0, 1.0),
        "presence_penalty": lambda: draw.uniform(-1.0, 1.0),
    }  # fmt: skip
    for name, value in ranges.items():
        if draw.random() < 0.2:
            off[name] = value()
    bias = {draw.randrange(24): draw.uniform(-100, 100) for _ in range(draw.choice((0, 0, 0, 2)))}
    return DrawParams(**off, seed=draw.randrange(1 << 64), logit_bias=tuple(sorted(bias.items())))  # type: ignore[arg-type]


def random_case(draw: random.Random) -> Case:
    names = draw.choice((("lookup", "recycling"), ("recycling", "lookup"), ("lookup",), ("recycling",), ()))
    return Case(
        draw.randrange(1 << 30),
        small_model(
            draw.randrange(1 << 30), sharpness=draw.choice((1.0, 4.0)), capacity=draw.choice((64, 256))
        ),
        names,
        draw.choice((1, 4, 15)),
        draw.choice((None, COSTS, COSTS, STEEP)),
        draw.random() < 0.5,
    )


def random_requests(draw: random.Random) -> list[Request]:
    text = [draw.randrange(24) for _ in range(draw.randrange(1, 40))]
    requests = []
    for _ in range(draw.randrange(1, 5)):
        if draw.random() < 0.3:
            text = text[: draw.randrange(1, len(text) + 1)]
        text = text + draw.choice((text[-8:], [draw.randrange(24) for _ in range(draw.randrange(1, 30))]))
        stops = frozenset(draw.randrange(24) for _ in range(draw.choice((0, 0, 1, 3))))
        cancel = draw.choice((None, None, None, 0, 1, draw.randrange(1, 40)))
        requests.append(Request(text, random_params(draw), draw.choice((1, 7, 60, 500)), stops, cancel))
    return requests


def accepted(outcomes: list[Outcome]) -> int:
    return sum(step[3] is not None for one in outcomes for step in one.steps)


def test_random_replies_are_the_same() -> None:
    draw = random.Random(1)
    outcomes = [one for _ in range(25) for one in compare(random_case(draw), random_requests(draw))]
    assert accepted(outcomes) > 50
    finishes = {one.steps[-1][2] for one in outcomes if one.steps}
    assert finishes == {None, "stop", "length"}
    assert any(one.error for one in outcomes)


@pytest.mark.slow
def test_a_thousand_random_conversations_are_the_same() -> None:
    draw = random.Random(2)
    outcomes = [one for _ in range(1000) for one in compare(random_case(draw), random_requests(draw))]
    assert accepted(outcomes) > 3000


def test_a_long_reply_makes_the_same_plans_whatever_the_clock_says() -> None:
    for seed in range(2):
        case = Case(seed, small_model(5, sharpness=1.0, capacity=700), costs=COSTS, old=seed == 1)
        outcome = compare(case, [Request([1, 2, 3], DrawParams(temperature=0.2, seed=seed), 600)])[0]
        assert len(outcome.steps) == 600
        assert any(record[6] for record in outcome.passes)


@pytest.mark.parametrize("names", [("lookup", "recycling"), ("small",)])
def test_states_bound_drafts_and_are_noted_where_a_reply_begins(names: tuple[str, ...]) -> None:
    draw, outcomes = random.Random(4), []
    for seed in range(8):
        small = small_model(seed, most_undone=3)
        case = Case(seed, small_model(seed, sharpness=4.0, most_undone=5), names, draft=small)
        requests = random_requests(draw)
        found = compare(case, requests)
        assert all(one.rewinds for one in found if not one.error)
        outcomes += found
    fed = [len(record[4]) for one in outcomes for record in one.passes]
    assert max(fed) == 4
    assert accepted(outcomes) > 20


def test_a_request_that_cannot_be_is_refused_and_changes_nothing() -> None:
    case = Case(1, small_model(1, capacity=32))
    greedy, sound = DrawParams(), [1, 2, 3]
    requests = [
        Request(sound, greedy, 5),
        Request([], greedy, 5),
        Request([24], greedy, 5),
        Request([-1], greedy, 5),
        Request(sound, greedy, 0),
        Request([1] * 32, greedy, 5),
        Request(sound, DrawParams(logit_bias=((24, 1.0),)), 5),
        Request([*sound, 4], greedy, 100),
    ]
    outcomes = compare(case, requests)
    assert [one.error for one in outcomes] == [False, True, True, True, True, True, True, False]
