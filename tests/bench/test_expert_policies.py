"""Policies for experts in memory: by their definitions, and beside the best that any could do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from edgedec.bench.studies.expert_policies import Expectation, Foresight, Frequency, Recency, Routing, hits


def random_routing(seed: int, layers: int = 2, count: int = 4, chosen: int = 2, passes: int = 8) -> Routing:
    """Some experts are chosen more often than others."""
    rng = np.random.default_rng(seed)
    likely = np.arange(1, count + 1) / sum(range(1, count + 1))
    requests = []
    for _ in range(passes):
        for layer in range(layers):
            experts = np.sort(rng.choice(count, chosen, replace=False, p=likely))
            requests.append(layer * count + experts)
    return Routing(layers, count, requests)


def most_hits(requests: Sequence[tuple[int, ...]], slots: int) -> int:
    """The hits of the best choices, by trying all sets that could be kept after every request."""
    best = {frozenset[int](): 0}
    for asked in requests:
        after: dict[frozenset[int], int] = {}
        for there, found in best.items():
            got = found + len(there.intersection(asked))
            others = sorted(there.difference(asked))
            room = max(0, min(slots - len(asked), len(others)))
            for kept in combinations(others, room):
                state = frozenset((*asked, *kept))
                after[state] = max(got, after.get(state, 0))
        best = after
    return max(best.values())


@pytest.mark.parametrize("slots", [2, 3, 4, 5, 8])
def test_no_choices_have_more_hits_than_foresight(slots: int) -> None:
    for seed in range(12):
        routing = random_routing(seed)
        requests = [tuple(one.tolist()) for one in routing.requests]
        best = most_hits(requests, slots)
        assert hits(routing, Foresight(routing), slots) == best
        others = (Recency(routing), Frequency(routing, 4), Frequency(routing, np.inf), Expectation(routing))
        for policy in others:
            assert hits(routing, policy, slots) <= best


@pytest.mark.parametrize("slots", [6, 9])
@pytest.mark.parametrize("by_layer", [False, True])
def test_recency_lets_go_of_the_one_used_longest_ago(slots: int, by_layer: bool) -> None:
    routing = random_routing(5, layers=3, count=6, passes=60)
    expected = 0
    for layers in [[0], [1], [2]] if by_layer else [[0, 1, 2]]:
        order: list[int] = []
        for request in routing.requests:
            asked = request.tolist()
            if asked[0] // routing.count not in layers:
                continue
            expected += len(set(asked) & set(order))
            order = [one for one in order if one not in asked] + asked
            order = order[-(slots // 3 if by_layer else slots) :]
    assert hits(routing, Recency(routing), slots, by_layer=by_layer) == expected


@pytest.mark.parametrize("half_life", [1, 3, np.inf])
def test_a_use_counts_half_as_much_a_half_life_later(half_life: float) -> None:
    routing = random_routing(7, layers=1, count=5, passes=40)
    policy = Frequency(routing, half_life)
    uses: list[tuple[int, int]] = []
    for moment, request in enumerate(routing.requests):
        policy.use(request)
        uses += [(int(one), moment) for one in request]
        values: Counter[int] = Counter()
        for expert, then in uses:
            values[expert] += 2.0 ** ((then - moment) / half_life)
        known = np.array(sorted(values))
        by_definition = [values[one] for one in known.tolist()]
        shift = np.log2(by_definition) - policy.values(known)  # as it was at the first pass
        assert np.ptp(shift) == pytest.approx(0, abs=1e-9)


def test_a_pass_of_another_layer_does_not_age_an_expert() -> None:
    routing = Routing(2, 2, [np.array([0]), np.array([2]), np.array([3]), np.array([2])])
    policy = Frequency(routing, 1)
    for request in routing.requests:
        policy.use(request)
    assert (
        np.argmin(policy.values(np.arange(4)[[0, 3]])) == 0
    )  # used once at its layer's first pass; 3 at the second


def test_an_expert_is_expected_by_how_often_passes_took_it_and_by_its_layers_turn() -> None:
    routing = random_routing(9, layers=3, count=4, passes=30)
    policy = Expectation(routing, recent=1, usual=4)
    passes: dict[int, list[set[int]]] = {0: [], 1: [], 2: []}
    for request in routing.requests:
        policy.use(request)
        layer = int(request[0]) // 4
        passes[layer].insert(0, set(request.tolist()))
        for expert in sorted(set().union(*(asked for past in passes.values() for asked in past))):
            took = np.array([expert in asked for asked in passes[expert // 4]])
            ages = np.arange(len(took))
            shares = [(took * 2.0 ** (-ages / life)).sum() * (1 - 2 ** (-1 / life)) for life in (1, 4)]
            turn = next(step for step in (1, 2, 3) if (layer + step) % 3 == expert // 4)
            wait = 1 / (0.25 * shares[0] + 0.75 * shares[1]) + turn / 3
            assert policy.values(np.array([expert]))[0] == pytest.approx(-wait)


@pytest.mark.parametrize("by_layer", [False, True])
def test_a_request_that_is_larger_than_its_slots_leaves_its_last_ones(by_layer: bool) -> None:
    routing = Routing(1, 6, [np.arange(6), np.array([4]), np.array([5]), np.array([0])])
    assert hits(routing, Recency(routing), 2, by_layer=by_layer) == 2


def test_with_room_for_all_each_is_missed_once() -> None:
    routing = random_routing(3, passes=30)
    for policy in (Recency(routing), Frequency(routing, 16), Expectation(routing), Foresight(routing)):
        assert hits(routing, policy, routing.total) == routing.asked - routing.total
