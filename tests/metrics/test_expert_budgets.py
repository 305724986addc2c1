"""What budgets are worth to a model with experts."""

from __future__ import annotations

import pytest

from edgedec.bench.studies.expert_policies import Expectation, hits
from edgedec.bench.studies.experts import Drawn, drawn
from edgedec.core.experts import Experts
from edgedec.metrics.expert_budgets import Rates, expert_budgets

EXPERTS = Experts(layers=4, count=32, chosen=4, width=64, slot_bytes=8192, nbytes=4 * 32 * 8000)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("again", [0.2, 0.35, 0.6])
def test_expected_hits_are_those_of_the_policy_on_such_a_routing(share: float, again: float) -> None:
    routing = drawn(Drawn(EXPERTS.count, EXPERTS.chosen, again, EXPERTS.layers, tokens=700), seed=2)
    slots = round(share * EXPERTS.total)
    found = hits(routing, Expectation(routing), slots) / routing.asked
    assert EXPERTS.hits(slots, again) == pytest.approx(found, abs=0.03)


def test_hits_grow_from_none_to_all() -> None:
    rates = [EXPERTS.hits(slots) for slots in range(EXPERTS.total + 1)]
    assert (rates[0], rates[-1]) == (0, 1)
    assert rates == sorted(rates)
    every = Experts(2, 4, 4, 8, 4096, 8 * 4096)
    assert (every.hits(4), every.hits(8)) == (0.5, 1.0)


def test_a_budget_with_room_for_all_reads_nothing_and_is_the_largest() -> None:
    others, token = 10_000_000, 500_000.0
    found = list(expert_budgets(EXPERTS, others, token, Rates(memory=1e9, disk=1e7)))
    assert [one.slots for one in found] == [16, 32, 48, 64, 96, 128]
    assert [one.memory for one in found] == [others + one.slots * 8192 for one in found]
    assert (found[-1].hits, found[-1].read) == (1.0, 0.0)
    assert found[-1].tokens_per_s == pytest.approx(1e9 / token)
    taken = 4 * 4 * 8000
    for one in found:
        assert one.read == pytest.approx(taken * (1 - one.hits))
        assert 1 / one.tokens_per_s == pytest.approx(token / 1e9 + one.read / 1e7)
    speeds = [one.tokens_per_s for one in found]
    assert speeds == sorted(speeds)
