from __future__ import annotations

import pytest

from edgedec.control import CostCurve
from edgedec.control.tally import Count
from edgedec.core.tree import EMPTY, DraftTree, chain
from edgedec.decode.passes import PassTime
from edgedec.decode.records import Verdict
from edgedec.decode.speculation import Speculation
from tests.control.parts import Acceptance, Control, Credit, feed_plan, least_reach, line
from tests.control.simulate import NO_ROWS, Saying, following
from tests.fixtures.rounds import begin_round, undrafted_round

FLAT = CostCurve({1: 0.010, 16: 0.010})
STEEP = CostCurve({1: 0.010, 16: 0.160})
MEASURED = CostCurve({1: 0.038, 2: 0.045, 4: 0.062, 8: 0.105, 16: 0.188})


def test_between_measured_points_costs_are_straight_lines() -> None:
    assert MEASURED.seconds(3) == pytest.approx(0.0535)
    assert MEASURED.seconds(12) == pytest.approx(0.1465)
    assert MEASURED.longest == 16


def test_costs_never_fall_with_tokens() -> None:
    curve = CostCurve({1: 0.02, 2: 0.01, 16: 0.05})
    times = [curve.seconds(tokens) for tokens in range(1, 17)]
    assert times == sorted(times)


@pytest.mark.parametrize("tokens", [0, 17])
def test_outside_the_curve(tokens: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        MEASURED.seconds(tokens)


@pytest.mark.parametrize("points", [{}, {2: 1.0}, {1: 0.0}, {0: 1.0, 1: 1.0}])
def test_curves_that_are_none(points: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="cost curve"):
        CostCurve(points)


def test_a_machine_that_slows_down_is_followed() -> None:
    curve = CostCurve({1: 0.01, 16: 0.02})
    for _ in range(100):
        curve.observe(1, 0.02)
    assert curve.seconds(1) == pytest.approx(0.02, rel=0.01)


def test_one_interrupted_pass_says_nothing() -> None:
    curve = CostCurve({1: 0.01, 16: 0.02})
    curve.observe(1, 5.0)
    assert curve.seconds(1) == 0.01


def test_a_machine_that_slows_down_more_than_any_interruption_is_followed() -> None:
    curve = CostCurve({1: 0.01, 16: 0.02})
    assert not curve.observe(1, 0.1)
    for _ in range(100):
        curve.observe(1, 0.1)
    assert curve.seconds(1) == pytest.approx(0.1, rel=0.01)
    assert curve.seconds(16) == pytest.approx(0.2, rel=0.1)


def test_what_passes_over_several_tokens_take_too_long_is_no_slower_machine() -> None:
    curve = CostCurve({1: 0.01, 16: 0.02})
    for _ in range(40):
        curve.observe(8, 0.025)
        if curve.plain_is_unclear:
            curve.observe(1, 0.01)
            assert not curve.plain_is_unclear
    assert curve.seconds(8) == pytest.approx(0.025, rel=0.15)
    assert curve.seconds(1) == pytest.approx(0.01, rel=0.15)
    assert curve.drift == pytest.approx(0.025 / curve_at_8() - 1.0, abs=0.25)


def curve_at_8() -> float:
    return CostCurve({1: 0.01, 16: 0.02}).seconds(8)


def test_what_was_seen_can_be_kept() -> None:
    curve = CostCurve({1: 0.01, 2: 0.012, 16: 0.02})
    assert curve.drift == 0.0
    for _ in range(100):
        curve.observe(1, 0.02)
    assert curve.drift > 0.9
    again = CostCurve(curve.measured())
    assert again.drift == 0.0
    assert [again.seconds(t) for t in (1, 2, 16)] == [curve.seconds(t) for t in (1, 2, 16)]


def test_a_free_pass_takes_all_of_a_draft_and_a_dear_one_none() -> None:
    draft = chain([1, 2, 3, 4], [0.6] * 4, "x")
    assert feed_plan(draft, FLAT).nodes == 4
    assert feed_plan(draft, STEEP).nodes == 0
    assert feed_plan(EMPTY, FLAT).nodes == 0


TREE = DraftTree((1, 2, 3, 4, 5, 6), (-1, 0, -1, 1, 2, 3), (0.9, 0.8, 0.3, 0.7, 0.2, 0.4), ("x",) * 6)
REACH = [0.9, 0.72, 0.3, 0.504, 0.06, 0.2016]


@pytest.mark.parametrize("rate", [0.0, 30.0, 60.0])
def test_the_plan_gains_most_of_all_prefixes(rate: float) -> None:
    worth = max(rate, 1.0 / MEASURED.seconds(1))
    gains = [sum(REACH[:n]) - worth * (MEASURED.seconds(1 + n) - MEASURED.seconds(1)) for n in range(7)]
    plan = feed_plan(TREE, MEASURED, rate=rate)
    assert plan.nodes == gains.index(max(gains))
    assert plan.gain == pytest.approx(max(gains))


def test_where_drafts_are_good_elsewhere_poor_ones_are_not_fed() -> None:
    assert feed_plan(TREE, MEASURED, rate=60.0).nodes < feed_plan(TREE, MEASURED).nodes


def test_handling_and_what_may_be_lost_make_plans_smaller() -> None:
    assert feed_plan(TREE, FLAT).nodes == 6
    assert feed_plan(TREE, FLAT, verify_overhead=0.005).nodes == 2
    spare = MEASURED.seconds(3) - MEASURED.seconds(1)
    assert feed_plan(chain(list(range(15)), [1.0] * 15, "x"), MEASURED, spare=spare + 1e-9).nodes == 2


def test_the_plan_ends_where_the_curve_does() -> None:
    assert feed_plan(chain(list(range(30)), [1.0] * 30, "x"), FLAT).nodes == 15


def test_below_the_least_reach_nothing_is_fed() -> None:
    for costs in (MEASURED, STEEP, CostCurve({1: 0.01, 2: 0.02, 4: 0.021, 16: 0.1})):
        least = least_reach(costs, 15)
        assert feed_plan(chain([1] * 15, [0.99 * least] + [1.0] * 14, "x"), costs).nodes == 0
        if least < 1.0:
            assert feed_plan(chain([1] * 15, [min(1.01 * least, 1.0)] + [1.0] * 14, "x"), costs).nodes > 0


def test_belief_moves_from_what_is_said_to_what_is_seen() -> None:
    acceptance = Acceptance("xyz")
    assert 0.7 < acceptance.calibrate("x", 0.9) < 0.8
    for _ in range(50):
        acceptance.observe(chain([1], [0.9], "x"), [2])
    assert acceptance.calibrate("x", 0.9) < 0.15
    assert 0.7 < acceptance.calibrate("y", 0.9) < 0.8
    for _ in range(500):
        acceptance.observe(chain([1], [0.9], "x"), [1])
    assert acceptance.calibrate("x", 0.9) > 0.9


def test_a_drafter_is_believed_at_once_and_no_longer_than_it_is_right() -> None:
    acceptance = Acceptance("x")
    assert acceptance.calibrate("x", 0.95) > 0.7
    for _ in range(8):
        acceptance.observe(chain([1], [0.95], "x"), [2])
    assert acceptance.calibrate("x", 0.95) < 0.25


def test_text_that_changes_shows_in_a_few_tokens() -> None:
    acceptance = Acceptance("xyz")
    for _ in range(300):
        acceptance.observe(chain([1], [0.9], "x"), [1])
    for _ in range(8):
        acceptance.observe(chain([1], [0.9], "x"), [2])
    assert acceptance.calibrate("x", 0.9) < 0.6
    for _ in range(12):
        acceptance.observe(chain([1], [0.9], "x"), [1])
    assert acceptance.calibrate("x", 0.9) > 0.8


def test_only_children_of_what_was_committed_count() -> None:
    acceptance = Acceptance("xyz")
    tree = DraftTree((1, 2, 3), (-1, 0, 1), (0.55, 0.65, 0.75), ("x", "y", "z"))
    unknown = acceptance.calibrate("z", 0.75)
    for _ in range(50):
        acceptance.observe(tree, [1, 9, 3])
    assert acceptance.calibrate("x", 0.55) > 0.9  # committed
    assert acceptance.calibrate("y", 0.65) < 0.15  # its parent was, it was not
    assert acceptance.calibrate("z", 0.75) == unknown


def test_the_credit_is_bounded_both_ways() -> None:
    credit = Credit()
    first = credit.book(1, 1.0)
    share = credit.book(1, 1.0) - first
    assert 0.0 < share < 0.02
    assert credit.book(1, 3.0) == pytest.approx(first + 2 * share - 2.0)
    for _ in range(99):
        most = credit.book(10, 2.0)
    assert most == credit.book(10, 2.0) > first
    assert credit.book(1, 1e6) == -most


def test_a_line_tells_what_a_call_costs_from_what_a_level_does() -> None:
    slope, _ = line([(units, 0.002 + 0.001 * units) for units in (1, 4, 2, 8, 3)])
    assert slope == pytest.approx(0.001)
    assert line([(4, 0.008)] * 9) == pytest.approx((0.002, 0.008))


def test_counts_by_drafter_and_by_depth() -> None:
    """Without costs the trees of two drafters are fed as they are."""
    trees = {
        "x": DraftTree((1, 2), (-1, 0), (0.9, 0.8), ("x",) * 2),
        "y": DraftTree((3, 4), (-1, 0), (0.7, 0.6), ("y",) * 2),
    }
    speculation = Speculation([Saying(name, lambda limit, tree=tree: tree) for name, tree in trees.items()])
    speculation.begin([], 0)
    for text in ([1, 2, 9], [3, 9]):
        round = begin_round(speculation, 8)
        round.settle(NO_ROWS, following(round.tree, text), PassTime(0.01))
    undrafted_round(speculation).settle(NO_ROWS, Verdict((), (5,)), PassTime(0.01))
    tally = speculation.tally
    assert (tally.rounds, tally.committed, tally.drafted, tally.accepted) == (3, 6, 8, 3)
    assert tally.verify_s == pytest.approx(0.03)
    assert tally.by_source == {"x": Count(4, 2), "y": Count(4, 1)}
    assert tally.by_depth == [Count(2, 2), Count(2, 1)]
    assert tally.as_json()["acceptance_by_depth"] == [1.0, 0.5]


def test_one_long_pass_is_not_charged_and_two_in_a_row_are() -> None:
    control = Control(CostCurve({1: 0.01, 16: 0.02}))
    assert [control.charged(seconds, 0.01) for seconds in (0.028, 0.011, 0.028, 0.026, 0.004)] == [
        0.01, 0.01, 0.01, 0.026, 0.004,
    ]  # fmt: skip


def test_an_interrupted_verification_does_not_make_all_drafts_dear() -> None:
    control = Control(CostCurve({1: 0.01, 16: 0.012}))
    assert control.verified(1, 0.1) <= 0.001
    assert control.plan(2, 0.9) == 2


def test_a_drafter_that_is_gone_takes_no_turn_of_a_live_one() -> None:
    """Both are costly, and the one that fails was the better one before."""
    now, alive = [0.0], {"dead", "live"}
    queried: list[str] = []

    def drafter(name: str, tokens: int) -> Saying:
        def guess(limit: int) -> DraftTree:
            queried.append(name)
            if name not in alive:
                raise RuntimeError("gone")
            now[0] += 0.002
            count = min(tokens, limit)
            return chain([7] * count, [0.9] * count, name)

        return Saying(name, guess)

    speculation = Speculation(
        [drafter("dead", 4), drafter("live", 2)], CostCurve({1: 0.01, 16: 0.012}), clock=lambda: now[0]
    )
    speculation.begin([], 0)

    def play(rounds: int) -> None:
        for _ in range(rounds):
            round = begin_round(speculation, 15)
            now[0] += 0.01
            round.settle(NO_ROWS, following(round.tree, [7] * 20), PassTime(0.01))

    play(60)
    assert {"dead", "live"} <= set(queried)
    alive.discard("dead")
    queried.clear()
    play(300)
    assert queried.count("dead") <= 1
    assert queried.count("live") > 200
