"""Trained heads of real tiny models: the hidden states that they read, and targets that they do not fit."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.bundle.drafter_manifest import HEAD
from edgedec.bundle.exits import taps_of
from edgedec.bundle.manifest import DRAFTING, MANIFEST
from edgedec.core.rows import Rows
from edgedec.disk.listed_files import sealed
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import peak
from tests.fixtures.carried import HeadPlace, plenty
from tests.fixtures.replies import GREEDY, SAMPLED, always, reply


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> HeadPlace:
    return HeadPlace(tmp_path_factory.mktemp("head"))


def test_hidden_states_of_the_kernels_are_those_of_one_pass_over_everything(place: HeadPlace) -> None:
    runner = place.runner()
    told: dict[int, np.ndarray] = {}  # type: ignore[type-arg]
    speculation = runner.engine.speculation
    assert speculation
    drafter = speculation._places[0]
    read = drafter.read

    def hear(start: int, hidden: np.ndarray) -> None:  # type: ignore[type-arg]
        told.update(enumerate(hidden.copy(), start))
        read(start, hidden)

    drafter.read = hear  # type: ignore[method-assign]
    with always(runner.engine):
        reply(runner.engine, [index % 200 for index in range(150)], SAMPLED, 60)
    committed = list(runner.engine.committed)
    runner.forward.rewind(0)
    for start in range(0, len(committed) - 1, 100):
        piece = committed[start : min(start + 100, len(committed) - 1)]
        found = runner.forward.extend(piece, rows=Rows((), taps=taps_of(runner.forward.spec.n_layers))).hidden
        assert found is not None
        for place_, state in enumerate(found, start):
            np.testing.assert_array_equal(told[place_], state)


def test_its_memory_is_given_up_where_there_is_too_little(place: HeadPlace) -> None:
    runner = place.runner(memory=plenty)
    assert runner.budget
    share = runner.budget.plan.parts[HEAD]

    def too_little(facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return peak(facts, replace(wanted, prompt_pass=16, drafted=1)) - share // 2

    tight = place.runner(memory=too_little)
    assert tight.budget
    assert "drafter: no model drafts" in tight.budget.plan.given_up
    assert HEAD not in tight.budget.plan.parts
    assert tight.drafting.drafters == ()


def test_a_prompt_in_several_pieces_stays_within_the_plan(place: HeadPlace) -> None:
    runner = place.runner(memory=plenty, context=512)
    assert runner.budget
    prompt = [index % 200 for index in range(500)]
    with always(runner.engine):
        reply(runner.engine, prompt, GREEDY, 8)
    assert runner.ledger.most()["hidden"] <= runner.budget.plan.parts["hidden"]


def test_a_head_of_another_model_is_refused(place: HeadPlace, tmp_path: Path) -> None:
    other = HeadPlace(tmp_path, "gemma3")
    shutil.rmtree(other.folder)
    shutil.copytree(place.folder, other.folder)
    assert other.runner().prepared.opened == {}
    assert "the drafter belongs to Tiny llama" in other.said[0]


def test_a_model_whose_bundle_hands_out_no_hidden_states_runs_without(tmp_path: Path) -> None:
    place = HeadPlace(tmp_path)
    (place.bundle / DRAFTING).unlink()
    text = (place.bundle / MANIFEST).read_text()
    data = json.loads(text)
    del data["files"][DRAFTING]
    (place.bundle / MANIFEST).write_text(sealed(data))
    assert place.runner().prepared.opened == {}
    assert place.said == [
        "Tiny llama runs without its trained head: its bundle does not hand out hidden states"
    ]
