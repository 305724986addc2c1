"""Several conversations in every pass: drafting must not make them slower together. In simulated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from edgedec.control import BatchCosts, CostCurve, Costs
from edgedec.decode.passes import PassTime
from edgedec.decode.speculation import Speculation
from tests.control.simulate import CURVES, NO_ROWS, Device, Guesser, curve, following, text
from tests.fixtures.rounds import begin_round

SLOWER = 0.98
LENGTH = 300
PASS = 0.005
"""Seconds of a pass over one token."""
Right = Callable[[int], float]


def long(points: Mapping[int, float], count: int) -> CostCurve:
    """The curve goes on as steeply as it ended, or from 32 tokens on as steeply as its products."""
    last, before = sorted(points)[-1], sorted(points)[-2]
    slope = (points[last] - points[before]) / (last - before)
    more = {tokens: points[last] + slope * (tokens - last) for tokens in (16 * count,) if tokens > last}
    return curve({**points, **more})


KNEE = {1: 1.0, 16: 1.1, 17: 1.2, 128: 9.0}
"""Memory's until 16 tokens, then the products'."""
SAGGING = {1: 1.0, 2: 1.8, 4: 3.0, 8: 4.4, 16: 5.5, 32: 6.2, 128: 8.0}
"""The more tokens there are, the less does one more cost: who only looks at that drafts in any case."""
SHAPES = {**CURVES, "knee": KNEE, "sagging": SAGGING}
STEEP = ("avx2", "knee", "sagging")


class Own:
    """The time of one conversation's thread."""

    now = 0.0

    def clock(self) -> float:
        return self.now


class Talk:
    """One conversation: its text, who drafts it, and how far it is."""

    def __init__(self, costs: Costs, length: int, make: Callable[[Sequence[int], Any], Guesser]) -> None:
        self.text, self.own = text(length), Own()
        self.speculation = Speculation([make(self.text, self.own)], costs, clock=self.own.clock)
        self.begin()

    def begin(self) -> None:
        self.at = 0
        self.speculation.begin([], 0)

    @property
    def left(self) -> int:
        return len(self.text) - self.at


def together(device: Device, talks: Sequence[Talk], batch: BatchCosts) -> float:
    """Seconds until all are through."""
    while any(talk.left for talk in talks):
        going = {number: talk for number, talk in enumerate(talks) if talk.left}
        before = sum(talk.own.now for talk in talks)
        rounds = {number: begin_round(talk.speculation, talk.left - 1) for number, talk in going.items()}
        fed = {number: 1 + len(round.tree) for number, round in rounds.items()}
        seconds = device.run(sum(fed.values()))
        batch.passed(fed, seconds)
        for number, talk in going.items():
            verdict = following(rounds[number].tree, talk.text[talk.at :])
            rounds[number].settle(NO_ROWS, verdict, PassTime(seconds))
            talk.at += len(verdict.tokens)
        device.now += sum(talk.own.now for talk in talks) - before
    return device.now


def speedup(
    shape: str,
    count: int,
    right: Right,
    claims: float | None = None,
    *,
    call: float = 0.0,
    level: float = 0.0,
    noise: float = 0.0,
    length: int = LENGTH,
    believed: Mapping[int, float] | None = None,
) -> float:
    """Of all conversations with drafts over all of them without. ``believed``: costs before any pass."""
    costs = long(SHAPES[shape], count)
    plain = Device(costs, noise=noise)
    lengths = [length + 37 * number for number in range(count)]
    for turn in range(max(lengths)):
        plain.run(sum(turn < length for length in lengths))
    drafted = Device(costs, noise=noise)
    batch = BatchCosts(long(believed or SHAPES[shape], count), count)
    make = lambda truth, own: Guesser(truth, own, right, claims, call=call, level=level)  # noqa: E731
    talks = [Talk(view, length, make) for view, length in zip(batch.views, lengths, strict=True)]
    return plain.now / together(drafted, talks, batch)


@pytest.mark.parametrize(
    ("shape", "count"), [*((shape, 2) for shape in SHAPES), *((shape, 6) for shape in STEEP)]
)
@pytest.mark.parametrize(
    ("right", "claims"),
    [(0.0, 1.0), (0.1, 0.9), (0.5, 0.95)],
    ids=["never", "hardly", "coin"],
)
def test_never_slower_together(shape: str, count: int, right: float, claims: float) -> None:
    assert speedup(shape, count, lambda at: right, claims) >= SLOWER


QWEN = {1: 1.0, 4: 1.27, 8: 1.72, 9: 2.2, 16: 3.3, 17: 3.8, 32: 6.6, 33: 7.3, 128: 26.2}
"""Qwen2.5-Coder-1.5B with AVX-512 VNNI, which multiplies eight tokens at once."""
SHAPES["qwen"] = QWEN


@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize("right", [0.0, 0.3, 0.6])
def test_costs_measured_on_a_busy_machine_make_no_batch_slower(count: int, right: float) -> None:
    """Eight tokens seem to cost as much as one: passes behind drafts then moved the level, not the shape."""
    busy = {**QWEN, 4: 1.16, 8: 0.98, 9: 1.1, 16: 1.84}
    assert speedup("qwen", count, lambda at: right, 0.9, believed=busy, length=2 * LENGTH) >= 0.975


def test_passes_behind_drafts_do_not_pass_for_the_speed_of_the_machine() -> None:
    """All sequences always draft: only a plain pass of all tells how long one takes now."""
    true, batch = long(QWEN, 4), BatchCosts(long({**QWEN, 4: 1.16, 8: 1.2, 9: 1.3}, 4), 4)
    views, plain = batch.views, 0
    for _ in range(400):
        tokens = 1 if (due := views[0].plain_is_unclear) else 2
        plain += due
        batch.passed(dict.fromkeys(range(4), tokens), true.seconds(4 * tokens))
    assert 400 / 32 - 1 <= plain < 40
    ratio = (views[0].seconds(2) - views[0].plain) / views[0].plain
    assert ratio == pytest.approx((true.seconds(8) - true.seconds(4)) / true.seconds(4), abs=0.06)


def test_plain_passes_are_not_awaited_for_ever() -> None:
    """A sequence whose next tokens are certain feeds several in any case."""
    batch = BatchCosts(long(QWEN, 4), 4)
    due = 0
    for _ in range(320):
        batch.passed({0: 5, 1: 1, 2: 1, 3: 1}, 0.01)
        due += batch.views[1].plain_is_unclear
    assert 0 < due <= 60


def test_a_token_costs_the_mean_over_what_others_fed_lately() -> None:
    """Kernels step at eight: one more token beside seven costs little, beside eight much."""
    table = long(QWEN, 4)
    batch = BatchCosts(table, 4)
    for turn in range(16):
        batch.passed({0: 1, 1: 2, 2: 2, 3: 2 + 2 * (turn % 2)}, table.seconds(7 + 2 * (turn % 2)))
    view = batch.views[0]
    steps = [table.seconds(tokens + 1) - table.seconds(tokens) for tokens in (7, 9)]
    shares = [(table.seconds(tokens + 1) - table.seconds(4)) / (tokens - 3) for tokens in (7, 9)]
    expected = sum(map(max, zip(steps, shares, strict=True))) / 2
    assert view.seconds(2) - view.plain == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("count", [4, 8])
def test_one_who_runs_ahead_of_the_others_does_not_make_all_slower(count: int) -> None:
    """Its drafts are right, but when it is through the others go on: one less in a pass saves little."""
    costs = long(QWEN, count)
    device, batch = Device(costs), BatchCosts(costs, count)
    rights = [0.95, *[0.0] * (count - 1)]
    make = lambda right: lambda truth, own: Guesser(truth, own, lambda at: right, 0.95)  # noqa: E731
    talks = [Talk(view, LENGTH, make(right)) for view, right in zip(batch.views, rights, strict=True)]
    assert LENGTH * costs.seconds(count) / together(device, talks, batch) >= SLOWER


@pytest.mark.parametrize("count", [6])
@pytest.mark.parametrize("shape", STEEP)
def test_never_slower_together_on_a_restless_machine(shape: str, count: int) -> None:
    assert speedup(shape, count, lambda at: 0.3, 0.9, noise=0.15) >= SLOWER


@pytest.mark.parametrize("count", [2, 8])
def test_asking_in_vain_costs_little(count: int) -> None:
    assert speedup("avx2", count, lambda at: 0.0, 0.9, call=20e-6) >= SLOWER


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("shape", ["avx2", "vnni", "knee"])
@pytest.mark.parametrize("right", [0.0, 0.6, 0.85])
@pytest.mark.parametrize(("level", "least"), [(0.1, SLOWER), (0.35, 0.975)])
def test_trying_a_draft_model_costs_a_batch_little(
    shape: str, count: int, right: float, level: float, least: float
) -> None:
    """It takes a share of a pass for each token: where many share the passes, more than one's own token.

    Such first calls may have been interrupted, and some more are made.
    """
    assert speedup(shape, count, lambda at: right, call=0.1 * PASS, level=level * PASS) >= least


@pytest.mark.parametrize(("shape", "count", "level"), [("avx2", 2, 0.2), ("knee", 4, 0.35), ("vnni", 8, 0.2)])
def test_over_long_texts_a_draft_model_makes_no_batch_slower(shape: str, count: int, level: float) -> None:
    for right in (0.3, 0.85):
        times = {"call": 0.1 * PASS, "level": level * PASS, "length": 4 * LENGTH}
        assert speedup(shape, count, lambda at, right=right: right, **times) >= 0.97  # type: ignore[misc]


class Reader(Guesser):
    """It reads the prompt of each reply before its first draft."""

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        super().begin(tokens, kept)
        self.calls = 0


@pytest.mark.parametrize("count", [1, 4, 8])
@pytest.mark.parametrize("right", [0.0, 0.3])
def test_prompts_of_short_replies_are_seldom_read_in_vain(count: int, right: float) -> None:
    """To read one takes two passes, and so many times more of one conversation's share of a pass."""
    replies, length = 24, 60
    costs = long(SHAPES["avx2"], count)
    device, batch = Device(costs), BatchCosts(costs, count)
    make = lambda truth, own: Reader(truth, own, lambda at: right, level=0.1 * PASS, reading=2 * PASS)  # noqa: E731
    talks = [Talk(view, length, make) for view in batch.views]
    for _ in range(replies):
        for talk in talks:
            talk.begin()
        together(device, talks, batch)
        for talk in talks:
            talk.speculation.end()
    assert replies * length * costs.seconds(count) / device.now >= 0.955


ZEN_5 = {1: 1.0, 4: 1.05, 8: 1.21, 9: 1.7, 16: 2.27, 17: 3.2, 32: 4.6, 33: 5.2, 128: 18.4}
"""Qwen2.5-Coder-1.5B with AVX-512 VNNI on a processor that multiplies as fast as memory delivers."""
SHAPES["zen 5"] = ZEN_5


@pytest.mark.parametrize(("count", "least"), [(4, 0.96), (8, 0.975)])
@pytest.mark.parametrize("right", [0.0, 0.3, 0.6])
def test_one_of_a_batch_times_a_draft_model_for_all(count: int, least: float, right: float) -> None:
    """When each one read its prompt for that, two short replies of each had 0.94 of the speed."""
    length, costs = 64, long(ZEN_5, 4 * count)
    device, batch = Device(costs), BatchCosts(costs, count)
    times = {"call": 0.1 * PASS, "level": 0.1 * PASS, "reading": 0.5 * PASS}
    make = lambda truth, own: Reader(truth, own, lambda at: right, **times)  # noqa: E731
    talks = [Talk(view, length, make) for view in batch.views]
    for _ in range(2):
        for talk in talks:
            talk.begin()
        together(device, talks, batch)
        for talk in talks:
            talk.speculation.end()
    assert 2 * length * costs.seconds(count) / device.now >= least


def test_who_was_to_time_a_drafter_and_ended_is_not_waited_for() -> None:
    """The others ask it themselves some passes later."""
    costs = long(ZEN_5, 2)
    device, batch = Device(costs), BatchCosts(costs, 2)
    make = lambda truth, own: Guesser(truth, own, lambda at: 0.9, call=0.01 * PASS)  # noqa: E731
    first, second = (Talk(view, LENGTH, make) for view in batch.views)
    begin_round(first.speculation, 8)
    assert together(device, [second], batch) < 0.8 * LENGTH * costs.seconds(1)


def test_a_draft_model_pays_alone_and_where_tokens_are_cheap() -> None:
    for shape, count, least in (("vnni", 1, 2.0), ("avx2", 1, 1.2), ("vnni", 2, 1.4), ("knee", 2, 1.4)):
        assert speedup(shape, count, lambda at: 0.9, call=0.05 * PASS, level=0.1 * PASS) > least


def test_good_drafts_are_used_where_tokens_are_cheap() -> None:
    assert speedup("vnni", 2, lambda at: 0.95) > 2.5
    assert speedup("knee", 2, lambda at: 0.95) > 2.0
    assert speedup("avx2", 2, lambda at: 0.97) > 1.3


def test_what_pays_alone_may_not_pay_in_batch() -> None:
    """Memory has room for 15 drafted tokens of one; eight conversations leave none for any."""
    table = CostCurve({tokens: time / 100 for tokens, time in KNEE.items()})
    batch = BatchCosts(table, 8)
    alone = batch.views[0]
    assert alone.seconds(9) - alone.plain < 0.1 * alone.plain
    for _ in range(40):
        batch.passed(dict.fromkeys(range(8), 2), table.seconds(16))
    assert alone.plain == pytest.approx(table.seconds(8) / 8)
    assert alone.seconds(9) - alone.plain > 4 * alone.plain


def test_alone_it_is_the_table() -> None:
    table = curve(CURVES["avx2"])
    view = BatchCosts(table, 1).views[0]
    assert view.plain == table.plain
    assert [view.seconds(n) for n in range(1, 17)] == pytest.approx([table.seconds(n) for n in range(1, 17)])
    assert view.least_slope(15) == pytest.approx(table.least_slope(15))
    with pytest.raises(ValueError, match="outside"):
        view.seconds(17)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("drafted", [(0, 0, 0), (5, 0, 0), (3, 3, 3), (7, 1, 4), (15, 15, 15)])
def test_the_shares_of_all_come_to_the_whole_pass(shape: str, drafted: tuple[int, ...]) -> None:
    table = long(SHAPES[shape], 3)
    batch = BatchCosts(table, 3)
    fed = {number: 1 + more for number, more in enumerate(drafted)}
    whole = table.seconds(sum(fed.values()))
    for _ in range(60):  # so often that averages are what is fed; and what is fed, takes what the table says
        batch.passed(fed, whole)
    shares = sum(batch.views[number].seconds(tokens) for number, tokens in fed.items())
    assert shares >= whole * 0.999


def test_a_machine_with_less_time_for_us_makes_drafts_no_cheaper() -> None:
    """Plain passes of eight that take twice as long say nothing about one more token in them."""
    table = curve({1: 1.0, 8: 2.5, 16: 4.4, 32: 7.5, 128: 26.0})
    batch = BatchCosts(table, 8)
    batch.passed(dict.fromkeys(range(8), 1), table.seconds(8))
    view, usual = batch.views[0], table.seconds(8)
    before, price = view.plain, view.least_slope(15) / view.plain
    for _ in range(400):
        batch.passed(dict.fromkeys(range(8), 1), 2.0 * usual)
    assert view.plain == pytest.approx(2.0 * before, rel=0.02)
    assert view.least_slope(15) / view.plain == pytest.approx(price, rel=0.02)


def test_an_old_level_is_learned_from_passes_that_sequences_share() -> None:
    table = CostCurve({1: 0.01, 4: 0.02, 16: 0.05}, old=True)
    batch = BatchCosts(table, 4)
    for seconds in (0.2, 0.21, 0.2):
        assert table.level_is_old
        batch.passed(dict.fromkeys(range(4), 1), seconds)
    assert not table.level_is_old
    assert table.seconds(4) == pytest.approx(0.2)
    assert table.seconds(16) == pytest.approx(0.5)
