"""Trained heads of real tiny models: found, opened, planned for, and exact."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.core.drafter_manifest import DRAFTER, HEAD, Target
from edgedec.core.errors import NotFoundError
from edgedec.core.exits import taps_of
from edgedec.core.head_facts import GRAPH
from edgedec.core.listed_files import sealed
from edgedec.core.manifest import DRAFTING, MANIFEST, WEIGHTS, Manifest
from edgedec.decode.engine import Engine
from edgedec.export.draft_head.bundle import export_head
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import peak
from edgedec.sampling import DrawParams
from tests.fixtures.draft_heads import random_head
from tests.fixtures.tiny_models import prepared_run, tiny_bundle

GREEDY = DrawParams()
SAMPLED = DrawParams(temperature=0.8, top_p=0.95, seed=3)
PENALISED = DrawParams(temperature=0.7, repetition_penalty=1.2, seed=4)
PROMPT = [5, 6, 7, 8, 9, 10, 11]


class Place:
    """A bundle and a home with a random head for it."""

    def __init__(self, folder: Path, architecture: str = "llama", quant: str = "q8_0") -> None:
        self.bundle, self.home = tiny_bundle(folder, architecture), folder / f"home-{architecture}"
        manifest = Manifest.load(self.bundle)
        self.spec, self.target = manifest.spec, Target.of(manifest)
        self.head = self.home / "drafters" / self.target.short_hash / HEAD
        weights = random_head(self.spec.hidden_size, self.spec.vocab_size, ids=200)
        export_head(weights, self.bundle, self.head, quant=quant)
        self.said: list[str] = []

    def runner(self, draft: str = HEAD, **settings: object) -> Runner:
        config = RunConfig(**{"draft": draft, "threads": 1, "context": 256, **settings})  # type: ignore[arg-type]
        return Runner(prepared_run(self.bundle, config, RunContext(self.home, self.said.append)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("head"))


def reply(engine: Engine, prompt: Sequence[int], params: DrawParams, n: int = 40) -> list[int]:
    return [step.token for step in engine.generate(prompt, params, max_tokens=n, stop_ids=())]


@contextmanager
def always(engine: Engine) -> Iterator[None]:
    """Feed every draft, whether it pays or not."""
    assert engine.speculation
    from edgedec.control import Uncontrolled

    before = engine.speculation._control
    engine.speculation._control = Uncontrolled(engine.speculation.drafters)
    yield
    engine.speculation._control = before


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma3"])
@pytest.mark.parametrize("quant", ["q8_0", "q4_0,head=q4_0"])
def test_replies_are_those_without_drafts(tmp_path: Path, architecture: str, quant: str) -> None:
    place = Place(tmp_path, architecture, quant)
    plain, drafted = place.runner("off").engine, place.runner().engine
    assert drafted.speculation
    assert drafted.speculation.drafters == (HEAD,)
    with always(drafted):
        for params in (GREEDY, SAMPLED, PENALISED):
            prompt, said = list(PROMPT), reply(plain, PROMPT, params)
            assert reply(drafted, prompt, params) == said
            longer = [*PROMPT, *said[:20], 3, 4, 5]  # a turn that keeps some and changes the rest
            assert reply(drafted, longer, params) == reply(plain, longer, params)
    assert drafted.speculation.tally.drafted > 100
    assert drafted.speculation.drafters == (HEAD,)
    assert drafted.speculation.tally.by_drafter[HEAD].bytes_read > 0


def test_with_other_drafters_and_under_control_replies_are_the_same(place: Place) -> None:
    plain, drafted = place.runner("off").engine, place.runner("lookup,recycling,head,exit").engine
    for params in (GREEDY, SAMPLED):
        assert reply(drafted, PROMPT, params, 100) == reply(plain, PROMPT, params, 100)


def test_hidden_states_of_the_kernels_are_those_of_one_pass_over_everything(place: Place) -> None:
    runner = place.runner()
    told: dict[int, np.ndarray] = {}  # type: ignore[type-arg]
    speculation = runner.engine.speculation
    assert speculation
    drafter = speculation._drafters[0]
    read = drafter.read

    def hear(start: int, hidden: np.ndarray) -> None:  # type: ignore[type-arg]
        told.update(enumerate(hidden.copy(), start))
        read(start, hidden)

    drafter.read = hear  # type: ignore[method-assign]
    with always(runner.engine):
        reply(runner.engine, [index % 200 for index in range(150)], SAMPLED, 60)
    committed = list(runner.engine.committed)
    from edgedec.core.rows import Rows

    runner.forward.rewind(0)
    for start in range(0, len(committed) - 1, 100):
        piece = committed[start : min(start + 100, len(committed) - 1)]
        found = runner.forward.extend(piece, rows=Rows((), taps=taps_of(runner.forward.spec.n_layers))).hidden
        assert found is not None
        for place_, state in enumerate(found, start):
            np.testing.assert_array_equal(told[place_], state)


def test_a_restored_session_goes_on_with_the_head(place: Place) -> None:
    text = [*PROMPT, *reply(place.runner("off").engine, PROMPT, GREEDY, 20)]
    plain, runner = place.runner("off").engine, place.runner()
    runner.forward.extend(text)
    runner.engine.adopt(text)
    with always(runner.engine):
        assert reply(runner.engine, [*text, 9, 8], GREEDY) == reply(plain, [*text, 9, 8], GREEDY)
    assert runner.engine.speculation
    assert runner.engine.speculation.tally.drafted


def test_where_tokens_leave_the_cache_replies_are_the_same(place: Place) -> None:
    settings = {"context": 64, "when_full": "slide"}
    plain, runner = place.runner("off", **settings).engine, place.runner(**settings)
    with always(runner.engine):
        assert reply(runner.engine, PROMPT, SAMPLED, 150) == reply(plain, PROMPT, SAMPLED, 150)


def plenty(facts: MemoryFacts, wanted: MemoryChoice) -> int:
    """A budget with room for all, whatever the process of the tests has loaded before."""
    return peak(facts, wanted) + 100_000_000


def test_its_memory_is_planned_leased_and_given_up(place: Place) -> None:
    runner = place.runner(memory=plenty)
    assert runner.budget
    assert runner.engine.speculation
    with always(runner.engine):
        reply(runner.engine, PROMPT * 20, GREEDY)
    share, most = runner.budget.plan.parts[HEAD], runner.ledger.most()[HEAD]
    assert 0 < most <= share <= 1.05 * most

    def too_little(facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return peak(facts, replace(wanted, prompt_pass=16, drafted=1)) - share // 2

    tight = place.runner(memory=too_little)
    assert tight.budget
    assert "drafter: no model drafts" in tight.budget.plan.given_up
    assert HEAD not in tight.budget.plan.parts
    assert tight.drafting.drafters == ()


def test_a_prompt_in_several_pieces_stays_within_the_plan(place: Place) -> None:
    runner = place.runner(memory=plenty, context=512)
    assert runner.budget
    prompt = [index % 200 for index in range(500)]
    with always(runner.engine):
        reply(runner.engine, prompt, GREEDY, 8)
    assert runner.ledger.most()["hidden"] <= runner.budget.plan.parts["hidden"]


def damage(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, DRAFTER])
def test_a_damaged_head_is_refused_and_the_model_runs_without_it(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path)
    if name == DRAFTER:
        text = (place.head / DRAFTER).read_text().replace('"hidden": 64', '"hidden": 32')
        (place.head / DRAFTER).write_text(text)
    else:
        damage(place.head, name)
    plain, runner = place.runner("off").engine, place.runner()
    assert not runner.prepared.opened
    assert len(place.said) == 1
    assert "Tiny llama runs without its trained head: " in place.said[0]
    assert runner.engine.speculation is None
    assert reply(runner.engine, PROMPT, GREEDY) == reply(plain, PROMPT, GREEDY)


def test_a_head_of_another_model_is_refused(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path, "gemma3")
    shutil.rmtree(other.head)
    shutil.copytree(place.head, other.head)
    assert other.runner().prepared.opened == {}
    assert "the drafter belongs to Tiny llama" in other.said[0]


def test_a_model_whose_bundle_hands_out_no_hidden_states_runs_without(tmp_path: Path) -> None:
    place = Place(tmp_path)
    manifest = Manifest.load(place.bundle)
    (place.bundle / DRAFTING).unlink()
    text = (place.bundle / MANIFEST).read_text()
    import json

    data = json.loads(text)
    del data["files"][DRAFTING]
    (place.bundle / MANIFEST).write_text(sealed(data))
    assert manifest.name == "Tiny llama"
    assert place.runner().prepared.opened == {}
    assert place.said == [
        "Tiny llama runs without its trained head: its bundle does not hand out hidden states"
    ]


def test_a_model_without_a_head_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    shutil.rmtree(place.head)
    with pytest.raises(NotFoundError, match="Tiny llama has no trained head"):
        place.runner()
