"""The search for layers to skip: which sets it measures, and that it finds good ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from edgedec.draft.exit import Way
from edgedec.training.skip_search import searched, way_past

EXITS = (4, 8, 11, 15, 19, 22, 26, 30)
SPANS = ((4, 8), (8, 11), (11, 15), (15, 19), (19, 22), (22, 26))


def test_spans_side_by_side_are_one() -> None:
    assert way_past(frozenset(SPANS[:2])).name == "skip-4-11"
    assert way_past(frozenset([SPANS[0], SPANS[2], SPANS[3]])).name == "skip-4-8-11-19"


def test_it_leaves_out_one_span_after_another() -> None:
    asked: list[list[str]] = []

    def speeds(ways: Sequence[Way]) -> Mapping[Way, float]:
        asked.append([way.name for way in ways])
        return {way: way.layers(30) / 30 for way in ways}

    found = searched(EXITS, speeds)
    assert [len(names) for names in asked] == [6, 5, 4, 3, 2, 1]
    assert len(found) == 21
    assert asked[0] == [f"skip-{start}-{end}" for start, end in SPANS]
    assert asked[-1] == ["skip-4-26"]


def test_where_spans_do_not_depend_on_each_other_it_finds_the_best_set() -> None:
    dice = random.Random(3)
    for _ in range(20):
        worth = {span: dice.uniform(-1, 1) for span in SPANS}
        best = frozenset(span for span in SPANS if worth[span] > 0)
        if not best:
            continue
        sets = [frozenset(SPANS[at] for at in range(6) if number >> at & 1) for number in range(1, 64)]
        value = {way_past(some): sum(worth[span] for span in some) for some in sets}
        found = searched(EXITS, lambda ways, value=value: {way: value[way] for way in ways})  # type: ignore[misc]
        assert max(found, key=lambda way: found[way]) == way_past(best)


def test_a_model_of_few_exits_has_nothing_to_search() -> None:
    assert searched((1, 2), lambda ways: {}) == {}
