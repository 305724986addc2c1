"""Drafters of a browser's CPU: damaged ones cost a note and never a token, and some find no memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP
from edgedec.export.web.cpu import PROGRAMS, write_drafter_programs
from tests.fixtures.carried import AssistantPlace, HeadPlace, MtpPlace, Place
from tests.fixtures.streamed import sparse_bundle
from tests.fixtures.tiny_models import tiny_bundle
from tests.native.test_web import failure, spoil
from tests.native.web import WebEngine, WebError, said
from tests.native.web_runs import CHEAP, with_program

REQUEST = {"text": "hello world hello", "max_tokens": 6, "sampling": {"temperature": 0}}
PLACES: dict[str, Callable[[Path], Place]] = {
    HEAD: HeadPlace,
    MTP: MtpPlace,
    ASSISTANT: lambda folder: AssistantPlace(folder, "gemma4"),
}
FEW, MANY = 150, 10_000


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A target with programs, whose bundle carries its drafter."""
    made = PLACES[request.param](tmp_path)
    inside = made.bundle / "drafters" / made.kind
    if inside != made.folder:
        shutil.copytree(made.folder, inside)
    write_drafter_programs(with_program(made.bundle))
    return made


def tokens(bundle: Path, **options: object) -> tuple[list[int], list[str], list[str]]:
    """A reply; the drafters that there were, and the notes."""
    with WebEngine(bundle, context=64, costs=CHEAP, **options) as engine:
        engine.call("cpu")
        facts = said()
        engine.reply(**REQUEST)
        return engine.tokens, facts["draft"], facts["notes"]


def hostile(place: Place, count: int) -> None:
    plain, _, _ = tokens(place.bundle, draft="off")
    file = place.bundle / PROGRAMS / f"{place.kind}.json"
    program, rng, refused = json.loads(file.read_text()), np.random.default_rng(4), 0
    for _ in range(count):
        damaged = json.loads(json.dumps(program))
        spoil(damaged, rng)
        file.write_text(json.dumps(damaged))
        found, names, notes = tokens(place.bundle, draft=place.kind)
        assert found == plain
        assert bool(notes) == (place.kind not in names)
        refused += bool(notes)
    assert count / 10 < refused < count


def test_damaged_programs_of_drafters_cost_a_note(place: Place) -> None:
    hostile(place, FEW)


@pytest.mark.slow
def test_ten_thousand_damaged_programs_of_drafters(place: Place) -> None:
    hostile(place, MANY)


def test_damaged_or_missing_files_cost_a_note(place: Place) -> None:
    plain, names, notes = tokens(place.bundle, draft="auto")
    assert (names, notes) == (["lookup", "recycling", place.kind], [])
    weights = place.bundle / "drafters" / place.kind / "weights.bin"
    data = weights.read_bytes()
    weights.write_bytes(data[: len(data) // 2])
    found, names, (note,) = tokens(place.bundle, draft="auto")
    assert (found, names) == (plain, ["lookup", "recycling"])
    assert f"runs without its drafter {place.kind}: cpu.json is damaged" in note
    weights.write_bytes(data)
    (place.bundle / PROGRAMS / f"{place.kind}.json").unlink()
    found, _, (note,) = tokens(place.bundle, draft="auto")
    assert found == plain
    assert f"runs without its drafter {place.kind}: " in note
    shutil.rmtree(place.bundle / "drafters")
    with pytest.raises(WebError, match="has no "):
        tokens(place.bundle, draft=place.kind)


def test_memory_that_is_short_leaves_out_drafters_before_it_halves_the_cache(place: Place) -> None:
    with WebEngine(place.bundle, context=256, costs=CHEAP, draft="off") as engine:
        engine.call("cpu")
        alone = said()
    with WebEngine(place.bundle, context=256, costs=CHEAP, memory=alone["memory"] + 1000) as engine:
        engine.call("cpu")
        found = said()
    assert (found["kv"], found["draft"]) == ("fp16", ["lookup", "recycling"])
    assert "there is no memory for the " in found["notes"][0]
    with WebEngine(place.bundle, context=256, costs=CHEAP, memory=alone["memory"] - 1000) as engine:
        engine.call("cpu")
        found = said()
    assert found["kv"] == "int8"
    assert found["memory"] < alone["memory"]


def test_layers_that_a_model_does_not_have_are_refused(tmp_path: Path) -> None:
    bundle = with_program(tiny_bundle(tmp_path))
    with pytest.raises(WebError, match="has no drafter exit-9"):
        tokens(bundle, draft="exit-9")
    exits = json.loads((bundle / "cpu.json").read_text())
    exits["exits"] = []
    (bundle / "cpu.json").write_text(json.dumps(exits))
    with pytest.raises(WebError, match="cannot draft with its own layers"):
        tokens(bundle, draft="exit-1")


def test_damaged_programs_with_experts_are_refused(tmp_path: Path) -> None:
    bundle = with_program(sparse_bundle(tmp_path))
    program, rng = json.loads((bundle / "cpu.json").read_text()), np.random.default_rng(4)
    codes = set()
    for _ in range(FEW):
        damaged = json.loads(json.dumps(program))
        spoil(damaged, rng)
        (bundle / "cpu.json").write_text(json.dumps(damaged))
        codes.add(failure(bundle))
    assert codes <= {None, 4, 11}
    assert codes > {None}
