"""One budget for several models: each is planned as if alone, and opened beside others where it fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.assemble.budget import Parts, memory_facts, wanted_choice
from edgedec.assemble.config import MemoryRequest
from edgedec.core.errors import MemoryBudgetError
from edgedec.core_lib.needs import drawing_bytes
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import MemoryPlan, peak, planned
from edgedec.sampling import DrawParams
from edgedec.server.work.opener import WHOLE_ROWS
from edgedec.server.work.room import ModelRoom, NoRoomBeside
from tests.fixtures.tiny_models import run_tiny, tiny_bundle

BASE = 50_000_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[MemoryFacts, MemoryChoice, int]:
    """Facts, the wanted choice, and the bytes that such a model takes beside a process of ``BASE`` bytes."""
    ready = run_tiny(tiny_bundle(tmp_path_factory.mktemp("models")))
    parts = Parts(MemoryRequest(context=256), ready.loaded)
    facts, wanted = replace(memory_facts(parts), process=BASE + 1_000_000), wanted_choice(parts)
    return facts, wanted, peak(facts, wanted) - BASE


def opened(
    room: ModelRoom, name: str, model: tuple[MemoryFacts, MemoryChoice, int], above: int = 0
) -> MemoryPlan:
    """Open a model while others hold ``above`` bytes."""
    facts, wanted, _ = model
    facts = replace(facts, process=facts.process + above)
    rule = room.rule(elastic=False)
    plan = planned(facts, wanted, rule(facts, wanted), elastic=False)
    room.opened(name, plan)
    return plan


def test_a_second_model_counts_what_the_first_may_take(
    model: tuple[MemoryFacts, MemoryChoice, int],
) -> None:
    need, measured = model[2], [BASE]
    room = ModelRoom(BASE + 2 * need, lambda: measured[0])
    first = opened(room, "a", model)
    assert room.planned == BASE + need
    measured[0] += 300_000  # what the first one has touched so far
    second = opened(room, "b", model, above=300_000)
    assert first.choice == second.choice
    assert room.planned == BASE + 2 * need == room.budget
    with pytest.raises(NoRoomBeside):
        opened(room, "c", model, above=300_000)
    room.closed("a")
    opened(room, "c", model, above=300_000)
    assert room.planned == room.budget


def test_a_byte_less_is_no_room(model: tuple[MemoryFacts, MemoryChoice, int]) -> None:
    room = ModelRoom(BASE + 2 * model[2] - 1, lambda: BASE)
    opened(room, "a", model)
    assert room.fits(0)
    with pytest.raises(NoRoomBeside):
        opened(room, "b", model)
    assert not room.fits(model[2])
    assert room.fits(1 << 40), "it fits nowhere, and its plan says so"


def test_a_model_that_fits_nowhere_is_an_error_with_its_own_need(
    model: tuple[MemoryFacts, MemoryChoice, int],
) -> None:
    room, measured = ModelRoom(BASE + model[2], lambda: measured[0]), [BASE]
    opened(room, "a", model)
    facts, wanted, need = model
    large = replace(facts, target=replace(facts.target, weights=facts.target.weights + 10**9))
    measured[0] += 5_000_000
    with pytest.raises(MemoryBudgetError) as found:
        opened(room, "b", (large, wanted, need), above=5_000_000)
    with pytest.raises(MemoryBudgetError) as alone:
        planned(large, wanted, room.budget, elastic=False)
    assert found.value.args == alone.value.args


def test_plans_have_room_for_any_sampling() -> None:
    drawn = [
        DrawParams(temperature=1.0, **values)
        for values in ({}, {"top_p": 0.9}, {"mirostat": 3.0, "frequency_penalty": 1.0}, {"top_n_sigma": 1.0})
    ]
    for masked in (False, True):
        most = drawing_bytes(WHOLE_ROWS, logprobs=True, masked=masked)
        assert most >= max(drawing_bytes(one, logprobs=True, masked=masked) for one in drawn)


def test_the_process_is_measured_anew_when_no_model_is_open(
    tmp_path: Path, model: tuple[MemoryFacts, MemoryChoice, int]
) -> None:
    measured = [BASE]
    room = ModelRoom(BASE + model[2], lambda: measured[0])
    opened(room, "a", model)
    room.closed("a")
    measured[0] -= 1_000_000
    facts = replace(model[0], process=model[0].process - 1_000_000)
    opened(room, "b", (facts, model[1], model[2]))
    assert room.planned == BASE + model[2] - 1_000_000


def test_a_plan_that_others_spoil_meanwhile_is_tried_again_when_they_are_closed(
    model: tuple[MemoryFacts, MemoryChoice, int],
) -> None:
    """The first one answered while the second one opened, and its cache filled."""
    need = model[2]
    room = ModelRoom(BASE + 2 * need, lambda: BASE)
    opened(room, "a", model)
    with pytest.raises(NoRoomBeside):
        opened(room, "b", model, above=200_000)
    facts, wanted, _ = model
    tight = ModelRoom(BASE + need, lambda: BASE)
    opened(tight, "a", model)
    rule = tight.rule(elastic=False)
    grown = replace(facts, process=facts.process + need // 2)
    with pytest.raises(NoRoomBeside):
        rule(grown, wanted)
