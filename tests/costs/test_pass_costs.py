"""Costs of passes: what is kept of them, when they are measured again, and what is predicted from them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.bench.studies.budget_plans import plans, predicted
from edgedec.control import CostCurve, StreamedCosts
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.experts import Experts, StoreCounts
from edgedec.core.model_spec import ModelSpec
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import PassCosts, TimedPasses, known_costs, measure_costs, sizes_up_to
from edgedec.costs.speeds import PredictedSpeeds, costs_now, seconds_in_turns
from edgedec.loaded_model import LoadedModel
from edgedec.memory.plan import MemoryPlan
from tests.bench.test_budgets import KNOWN, WANTED
from tests.fixtures.simulated import COSTS, Machine, on_machine
from tests.session.parrot import load_parrot

DAY_S = 86400.0


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedModel:
    return load_parrot(tmp_path).loaded


def start(
    loaded: LoadedModel,
    home: Path,
    machine: Machine,
    kv: KvType = "fp16",
    *,
    now: float = 0.0,
    said: Callable[[str], None] = lambda line: None,
) -> PassCosts:
    """The costs that a session gets which starts at the time ``now``."""
    model = on_machine(loaded, machine)
    file = replace(CostFile.of(model, kv, home / "costs"), now=lambda: now, load=lambda: 1.5)
    forward = model.backend.forward(CacheConfig(64, kv))
    return known_costs(forward, file, clock=machine.clock, notice=said)


def relative(costs: CostCurve | StreamedCosts | dict[int, float]) -> list[float]:
    seconds = costs if isinstance(costs, dict) else costs.measured()
    return [seconds[tokens] / seconds[1] for tokens in (2, 4, 8, 16)]


LOADS: dict[str, Callable[[float], float]] = {
    "quiet": lambda now: 1.0,
    "busy": lambda now: 4.0,
    "rising": lambda now: 1.0 + 10.0 * now,
    "falling": lambda now: max(4.0 - 8.0 * now, 1.0),
    "now and then": lambda now: 6.0 if now % 0.31 < 0.02 else 1.0,
}


@pytest.mark.parametrize("load", LOADS)
def test_what_passes_cost_in_relation_to_one_token_is_the_same_under_any_load(
    loaded: LoadedModel, load: str
) -> None:
    machine = Machine(LOADS[load])
    forward = on_machine(loaded, machine).backend.forward()
    found = measure_costs(forward, TimedPasses(machine.clock, print))
    assert relative(found) == pytest.approx(relative(COSTS["fp16"]), rel=0.12)


def test_a_slow_device_is_measured_in_one_round(loaded: LoadedModel) -> None:
    machine = Machine(lambda now: 500.0)
    found = measure_costs(on_machine(loaded, machine).backend.forward(), TimedPasses(machine.clock, print))
    assert relative(found) == pytest.approx(relative(COSTS["fp16"]))
    one_round = 500.0 * (
        3 * COSTS["fp16"].seconds(1) + sum(COSTS["fp16"].seconds(size) for size in (2, 4, 8, 9, 16))
    )
    assert machine.now == pytest.approx(one_round)


@pytest.mark.parametrize(
    ("longest", "sizes"),
    [
        (1, [1]),
        (7, [1, 2, 4]),
        (16, [1, 2, 4, 8, 9, 16]),
        (32, [1, 2, 4, 8, 9, 16, 17, 32]),
        (64, [1, 2, 4, 8, 9, 16, 17, 33, 64]),
        (256, [1, 2, 4, 8, 9, 16, 17, 33, 128]),
    ],
)
def test_both_sides_of_the_steps_of_kernels_are_measured(longest: int, sizes: list[int]) -> None:
    forward: Any = SimpleNamespace(capacity=4096, caps=SimpleNamespace(max_pass=4096))
    assert sizes_up_to(longest, forward) == sizes


def test_a_file_says_when_and_under_which_load(loaded: LoadedModel, tmp_path: Path) -> None:
    costs = start(loaded, tmp_path, Machine(), now=7000.0)
    assert costs.file
    document = json.loads(costs.file.path.read_text(encoding="utf-8"))
    assert document["measured"] == {"at": 7000.0, "load": 1.5, "plain_s": pytest.approx(0.004)}
    assert document["kept"] == document["measured"]
    assert not document["doubted"]


@pytest.mark.parametrize("slowness", [0.25, 4.0])
def test_the_first_passes_show_how_quick_the_machine_is_now(
    loaded: LoadedModel, tmp_path: Path, slowness: float
) -> None:
    start(loaded, tmp_path, Machine())
    curve = start(loaded, tmp_path, Machine()).curve
    assert curve.level_is_old
    assert curve.level_is_old
    for seconds in (0.004, 0.004, 0.0044):
        curve.observe(1, slowness * seconds)
    assert not curve.level_is_old
    assert curve.plain == pytest.approx(slowness * 0.004)
    assert curve.seconds(8) == pytest.approx(slowness * 0.008)


def test_each_measurement_of_a_model_is_said_once_with_what_it_is_for(
    loaded: LoadedModel, tmp_path: Path
) -> None:
    """Chats, a batch, a cache in int8: three measurements, whose lines were the same, each with a "once"."""
    said: list[str] = []
    for kv in ("fp16", "int8", "fp16"):
        costs = start(loaded, tmp_path, Machine(), kv, said=said.append)
    assert said == [
        "measuring what passes of fake cost with 2 threads, once",
        "measuring what passes of fake cost with 2 threads and a cache in int8, once",
    ]
    machine = Machine()
    forward = on_machine(loaded, machine).backend.forward(CacheConfig(64, "fp16"))
    known_costs(forward, costs.file, clock=machine.clock, notice=said.append, longest=32)
    assert said[2:] == ["measuring what longer passes of fake cost, for several conversations, once"]


def test_costs_measured_under_load_are_measured_again_once(loaded: LoadedModel, tmp_path: Path) -> None:
    said: list[str] = []
    start(loaded, tmp_path, Machine(lambda now: 4.0), said=said.append)
    costs = start(loaded, tmp_path, Machine(), now=DAY_S, said=said.append)
    costs.keep(COSTS["fp16"].measured())  # as a reply did whose passes took a fourth of that
    assert len(said) == 1
    again = start(loaded, tmp_path, Machine(), now=DAY_S, said=said.append)
    assert said[1:] == ["measuring again what passes of fake cost: they ran otherwise than measured"]
    assert again.curve.plain == pytest.approx(0.004)
    again.keep(COSTS["fp16"].measured())
    start(loaded, tmp_path, Machine(), now=2 * DAY_S, said=said.append)
    assert len(said) == 2


def test_a_shape_that_disagrees_with_what_ran_is_measured_again(loaded: LoadedModel, tmp_path: Path) -> None:
    said: list[str] = []
    costs = start(loaded, tmp_path, Machine(), said=said.append)
    costs.keep(COSTS["fp16"].measured() | {16: 0.030})
    start(loaded, tmp_path, Machine(), now=DAY_S, said=said.append)
    assert len(said) == 2


@pytest.mark.parametrize("seconds", [{1: 0.004, 16: 0.018}, {1: 0.016, 16: 0.056}])
def test_a_little_drift_and_a_busy_machine_are_no_reason_to_measure_again(
    loaded: LoadedModel, tmp_path: Path, seconds: dict[int, float]
) -> None:
    said: list[str] = []
    costs = start(loaded, tmp_path, Machine(), said=said.append)
    costs.keep(seconds)
    costs = start(loaded, tmp_path, Machine(), now=DAY_S, said=said.append)
    assert len(said) == 1
    measured = COSTS["fp16"].measured()
    assert costs.curve.seconds(1) == pytest.approx(seconds[1])
    assert costs.curve.seconds(16) / seconds[1] == pytest.approx(measured[16] / measured[1], rel=0.01)


def test_what_a_busy_reply_made_of_costs_does_not_end_drafts_in_the_next_ones(
    loaded: LoadedModel, tmp_path: Path
) -> None:
    """Bent a little by each of three replies, so that two tokens seem to take twice as long as one."""
    start(loaded, tmp_path, Machine())
    for minute in range(3):
        costs = start(loaded, tmp_path, Machine(), now=60.0 * minute)
        bent = costs.curve.measured()
        costs.keep({tokens: time * (1.25 if tokens > 1 else 1.0) for tokens, time in bent.items()})
    again = start(loaded, tmp_path, Machine(), now=240.0)
    assert relative(again.curve.measured()) == pytest.approx(relative(COSTS["fp16"]), rel=0.01)


def test_a_machine_whose_load_comes_and_goes_measures_once_an_hour_at_most(
    loaded: LoadedModel, tmp_path: Path
) -> None:
    said: list[str] = []
    for minute in range(121):
        machine = Machine(lambda now: 4.0) if minute % 2 == 0 else Machine()
        costs = start(loaded, tmp_path, machine, now=60.0 * minute, said=said.append)
        slowness = machine.slowness(0.0)
        costs.keep({tokens: slowness * time for tokens, time in COSTS["fp16"].measured().items()})
    assert len(said) == 3


def test_a_file_of_another_form_is_measured_again(loaded: LoadedModel, tmp_path: Path) -> None:
    said: list[str] = []
    file = start(loaded, tmp_path, Machine(), said=said.append).file
    assert file
    seconds = {"1": 0.1, "2": 0.2, "16": 0.3}
    file.path.write_text(json.dumps({"conditions": file.conditions, "seconds": seconds}))
    assert start(loaded, tmp_path, Machine(), said=said.append).curve.plain == pytest.approx(0.004)
    assert len(said) == 2


def rises(found: list[MemoryPlan], speeds: list[PredictedSpeeds]) -> dict[str, float]:
    """By how much speeds grow at most from a budget to the next smaller one, by the change of the cache."""
    most: dict[str, float] = {}
    for poor, rich, slow, quick in zip(found, found[1:], speeds, speeds[1:], strict=False):
        change = f"{rich.choice.kv} to {poor.choice.kv}"
        more = slow.plain / quick.plain
        if poor.choice.drafted <= rich.choice.drafted:
            more = max(more, slow.most / quick.most)
        else:
            assert (rich.choice.kv, poor.choice.kv) == ("fp16", "int8")
        most[change] = max(more, most.get(change, 0.0))
    return most


@pytest.mark.parametrize(("then", "later"), [(4.0, 1.0), (1.0, 4.0), (1.0, 1.0)])
def test_speed_does_not_rise_with_less_memory(
    loaded: LoadedModel, tmp_path: Path, then: float, later: float
) -> None:
    """Whatever the load was when the costs of each type of cache were measured.

    One thing may raise it: a cache in int8 frees memory, in which drafts fit again.
    """
    start(loaded, tmp_path, Machine(lambda now: then), "fp16")
    start(loaded, tmp_path, Machine(lambda now: later), "int8")
    machine = Machine(lambda now: 2.0 + now)
    model = on_machine(loaded, machine)
    costs = costs_now(model, ("fp16", "int8"), tmp_path, notice=print, clock=machine.clock)
    found = plans(KNOWN, WANTED, elastic=True)
    most = rises(found, predicted(found, costs.curves))
    assert set(most) == {"fp16 to fp16", "fp16 to int8", "int8 to int8"}
    assert max(most.values()) == pytest.approx(1.0)
    for tokens in (1, 16):
        fp16, int8 = (COSTS[kv].seconds(tokens) for kv in ("fp16", "int8"))
        ratio = costs.curves["fp16"].seconds(tokens) / costs.curves["int8"].seconds(tokens)
        assert ratio == pytest.approx(fp16 / int8, rel=0.03)


def test_the_predicted_speed_is_the_one_that_runs(loaded: LoadedModel, tmp_path: Path) -> None:
    start(loaded, tmp_path, Machine(lambda now: 4.0))
    machine = Machine()
    model = on_machine(loaded, machine)
    costs = costs_now(model, ("fp16",), tmp_path, notice=None, clock=machine.clock)
    speed = PredictedSpeeds.of(costs.curves["fp16"], 15)
    assert speed.plain == pytest.approx(1 / 0.004)
    assert speed.most == pytest.approx(16 / 0.014)


def test_without_kept_costs_and_measuring_only_plain_speed_is_known(
    loaded: LoadedModel, tmp_path: Path
) -> None:
    machine = Machine()
    costs = costs_now(on_machine(loaded, machine), ("fp16",), tmp_path, notice=None, clock=machine.clock)
    assert PredictedSpeeds.of(costs.curves["fp16"], 15) == PredictedSpeeds(
        pytest.approx(250.0), pytest.approx(250.0)
    )
    assert not (tmp_path / "costs").exists()


def test_costs_of_the_longer_passes_of_a_batch_are_of_no_harm(loaded: LoadedModel, tmp_path: Path) -> None:
    costs = start(loaded, tmp_path, Machine())
    assert costs.file
    costs.file.write(costs.file.measured(COSTS["fp16"].measured() | {128: 0.1}))
    machine = Machine()
    model = on_machine(loaded, machine)
    now = costs_now(model, ("fp16", "int8"), tmp_path, notice=print, clock=machine.clock)
    assert [curve.longest for curve in now.curves.values()] == [16, 16]


def test_a_difference_that_is_only_noise_is_none(loaded: LoadedModel) -> None:
    dice = random.Random(5)
    machine = Machine(lambda now: dice.lognormvariate(0.0, 0.2))
    backend = on_machine(loaded, machine).backend
    timed = TimedPasses(machine.clock, print)
    taken = seconds_in_turns({"one": backend.forward(), "other": backend.forward()}, timed)
    assert taken["one"] == taken["other"]


class Recorder:
    """A forward that remembers what it was fed."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec, self.fed = spec, list[list[int]]()

    def rewind(self, length: int) -> None:
        assert length == 0

    def extend(self, tokens: list[int], *, rows: object) -> None:
        self.fed.append(tokens)


def test_models_with_experts_are_measured_with_tokens_that_differ(loaded: LoadedModel) -> None:
    """The same token takes the same experts: drafts would look nearly free."""
    dense = Recorder(replace(loaded.spec, vocab_size=500))
    mixture = Recorder(replace(dense.spec, experts=Experts(2, 8, 2, 32, 4096, 65536)))
    for forward in (dense, mixture):
        timed = TimedPasses(lambda: 0.0, lambda line: None)
        for size in (1, 16, 1):
            timed.run(forward, size)  # type: ignore[arg-type]
    assert dense.fed == [[0], [0] * 16, [0]]
    assert list(map(len, mixture.fed)) == [1, 16, 1]
    assert len({token for tokens in mixture.fed for token in tokens}) == 18


def test_costs_of_computing_are_kept_apart_where_experts_come_from_a_disk(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for slots in (None, 3, 16):
        store = SimpleNamespace(slots=slots) if slots else None
        monkeypatch.setattr(type(loaded.backend), "experts", property(lambda _, store=store: store))
        names.append(CostFile.of(loaded, "fp16", tmp_path).path.name)
    assert names[0] != names[1] == names[2]


class Streaming(Recorder):
    """A forward whose passes compute for a second and wait for experts for four."""

    capacity, caps = 64, SimpleNamespace(max_pass=64)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.now = self.waited = 0.0

    def extend(self, tokens: list[int], *, rows: object) -> None:
        super().extend(tokens, rows=rows)
        self.now, self.waited = self.now + 5.0, self.waited + 4.0


@pytest.mark.parametrize(("slots", "prices_waits"), [(8, True), (16, False)])
def test_what_a_pass_waits_for_experts_is_priced_beside(
    loaded: LoadedModel, slots: int, prices_waits: bool
) -> None:
    experts = Experts(2, 8, 2, 32, 4096, 65536)
    forward: Any = Streaming(replace(loaded.spec, experts=experts))
    store: Any = SimpleNamespace(
        slots=slots, experts=experts, counts=lambda: StoreCounts(0, 0, 0, forward.waited)
    )
    found = known_costs(forward, None, clock=lambda: forward.now, notice=print, store=store)
    assert found.curve.measured() == pytest.approx(dict.fromkeys((1, 2, 4, 8, 9, 16), 1.0))
    assert isinstance(found.curve, StreamedCosts) == prices_waits
    assert len(forward.fed) == 8, "one round: each pass reads from the disk"
