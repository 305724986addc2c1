"""Drafters of the makers of models with experts draft unnamed, also where experts come from the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.backends.onnx import expert_store
from edgedec.bundle.drafter_manifest import ASSISTANT, MTP, DrafterManifest
from edgedec.bundle.manifest import WEIGHTS
from edgedec.bundle.mtp_facts import MtpFacts
from edgedec.export import export_gguf
from tests.fixtures.carried import PLACES, Place, plenty
from tests.fixtures.nightly import every
from tests.fixtures.replies import always, check_replies, check_turns
from tests.fixtures.streamed import BESIDE
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.fixtures.tiny_models import prepared_run

TARGETS = {ASSISTANT: "gemma4moe", MTP: "qwen35moe"}


def made(folder: Path, kind: str) -> Place:
    shape = TinyShape(layers=7, context=512, delta=DeltaShape(nextn=int(kind == MTP)))
    export_gguf(write_tiny(folder / "model.gguf", TARGETS[kind], shape=shape), folder / "bundle")
    return PLACES[kind](folder, bundle=folder / "bundle")


@pytest.fixture(scope="module", params=TARGETS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return made(tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("on_disk", every(2, [True, False]))
def test_it_drafts_unnamed_and_replies_are_those_without_drafts(
    place: Place, on_disk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = place.runner("off").engine
    if on_disk:
        monkeypatch.setattr(expert_store, "available_bytes", lambda: 1)
    runner = place.runner("auto")
    assert (runner.prepared.target.backend.experts is not None) == on_disk
    assert place.kind in [spec.name for spec in runner.drafting.drafters]
    drafted = runner.engine
    assert drafted.speculation
    with always(drafted):
        check_replies(plain, drafted)
        check_turns(plain, drafted, 1)
    assert drafted.speculation.tally.by_drafter[place.kind].bytes_read > 0
    assert not any("runs without" in line for line in place.said)


def test_experts_of_an_mtp_layer_are_in_memory_and_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made(tmp_path, MTP)
    facts = MtpFacts.of(DrafterManifest.load(place.folder).facts)
    assert (facts.experts, facts.chosen, facts.expert_width) == (6, 2, 32)
    experts = facts.spec(64).experts
    assert experts is not None
    monkeypatch.setattr(expert_store, "available_bytes", lambda: 1)
    runner = place.runner(MTP, memory=plenty)
    assert runner.budget
    assert runner.budget.plan.parts[MTP] > experts.nbytes
    (drafter,) = (one.memory for one in runner.prepared.opened.values())
    assert drafter
    assert drafter.why.endswith("all its experts are in memory")
    assert drafter.weights > experts.nbytes


def test_without_a_budget_drafters_take_the_place_of_slots(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both share the memory that the machine has left."""
    experts = place.manifest.spec.experts
    assert experts is not None
    dense = place.manifest.files[WEIGHTS].bytes - experts.nbytes
    left = BESIDE + dense + 41 * experts.slot_bytes
    monkeypatch.setattr(expert_store, "available_bytes", lambda: left)
    slots = []
    for draft in ("off", place.kind):
        prepared = place.runner(draft).prepared
        store = prepared.target.backend.experts
        assert store
        slots.append(store.slots)
    weights = DrafterManifest.load(place.folder).total_bytes
    assert slots[0] == 41
    assert slots[1] == max(41 - -(-weights // experts.slot_bytes), store.least)
    assert slots[1] < 41


def test_experts_make_room_for_the_weights_of_drafters(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that just fits is read from the disk where its drafter would not fit beside it."""
    needed = place.manifest.files[WEIGHTS].bytes + BESIDE
    beside = DrafterManifest.load(place.folder).total_bytes
    for left, on_disk in ((needed + beside, False), (needed + beside - 1, True), (needed, True)):
        monkeypatch.setattr(expert_store, "available_bytes", lambda left=left: left)
        drafted = place.runner(place.kind).prepared
        assert (drafted.target.backend.experts is not None) == on_disk
        assert place.kind in [spec.name for spec in drafted.drafting.drafters]
        assert place.runner("off").prepared.target.backend.experts is None


def test_a_draft_model_whose_experts_have_no_room_is_left_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory plan has slots of a drafter."""
    monkeypatch.setattr(expert_store, "available_bytes", lambda: 1)
    told: list[str] = []
    context = RunContext(place.home, told.append)
    config = RunConfig(draft="small", threads=1, context=256)
    prepared = prepared_run(place.bundle, config, context, small=place.bundle)
    assert prepared.target.backend.experts
    assert not prepared.drafting.drafters
    why = "runs without small, which drafts for it: its experts have no room in memory"
    assert [line for line in told if why in line]


def test_a_budget_counts_the_weights_of_drafters_too(place: Place) -> None:
    budget = place.manifest.files[WEIGHTS].bytes + BESIDE
    for draft, on_disk in (("off", False), (place.kind, True), ("auto", True)):
        prepared = place.runner(draft, memory=budget).prepared
        assert (prepared.target.backend.experts is not None) == on_disk
        assert place.kind in [spec.name for spec in prepared.drafting.drafters] or draft == "off"
