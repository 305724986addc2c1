"""The native engine runs models with experts, in memory or from the disk: it says what Python says."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec import native
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.bundle.drafter_manifest import ASSISTANT, MTP
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BackendError, BadFileError, MemoryBudgetError
from edgedec.core.experts import Experts, StoreCounts
from edgedec.export import export_gguf
from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder
from edgedec.models.catalogue import CATALOGUE
from edgedec.sampling import DrawParams
from edgedec.session.model_stats import ExpertStats
from tests.bundle.hostile import edit
from tests.drafters.test_experts_carried import made
from tests.fixtures.streamed import LAYERS, cut, sparse_bundle
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run
from tests.fixtures.twins import CONTEXT, write_twin

TWINS = [name for name, entry in CATALOGUE.items() if entry.spec.experts]
MUTE = tuple(range(12, 260))
"""A model that says few different tokens: drafts by lookup are often right."""
SHAPE = ExpertShape(count=24, chosen=3, width=128)
TOKENS = 128
GREEDY, DRAWN = DrawParams(), DrawParams(temperature=0.9, top_p=0.95, seed=11)
TEXT = "hello world hello world the is of to hello world "
ROOMY = 500_000_000
"""A budget of a process in which all experts have slots, and are read when a token first needs them."""
SETTINGS: dict[str, Any] = {"threads": 1, "context": 400, "draft": "lookup,recycling"}


def experts_of(bundle: Path) -> Experts:
    found = Manifest.load(bundle).spec.experts
    assert found is not None
    return found


def tight(bundle: Path, **settings: Any) -> int:
    """A budget in which about half of the experts are in memory."""
    experts = experts_of(bundle)
    planned: int = native.plan(bundle, memory=ROOMY, **{**SETTINGS, **settings})["planned_bytes"]
    return planned - experts.total // 2 * experts.slot_bytes


def said(model: native.NativeModel) -> list[list[int]]:
    return [
        model.complete(text, sampling=params, max_tokens=TOKENS).tokens
        for text in (TEXT, TEXT * 2)
        for params in (GREEDY, DRAWN)
    ]


def python_says(bundle: Path, kv: str = "fp16") -> list[list[int]]:
    found = []
    with Model(prepared_run(bundle, RunConfig(**{**SETTINGS, "draft": "off", "kv": kv}))) as model:
        for text in (TEXT, TEXT * 2):
            for params in (GREEDY, DRAWN):
                reply = model.complete(text, sampling=params, max_tokens=TOKENS)
                reply.read()
                found.append(list(reply.tokens))
    return found


@pytest.fixture(scope="module", params=LAYERS)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    shape = TinyShape(layers=LAYERS[request.param], context=512, experts=SHAPE)
    gguf = write_tiny(folder / "tiny.gguf", request.param, shape=shape, mute=MUTE, sharpness=4.0)
    export_gguf(gguf, folder / "bundle")
    return folder / "bundle"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sparse_bundle(tmp_path_factory.mktemp("one"), experts=replace(SHAPE, chosen=2))


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_replies_are_pythons_with_fewer_slots_than_experts(bundle: Path, kv: str) -> None:
    told: list[str] = []
    with native.open(bundle, kv=kv, memory=tight(bundle, kv=kv), notice=told.append, **SETTINGS) as model:
        assert said(model) == python_says(bundle, kv)
        stats = model.stats()
    found, sizes, memory = stats["experts"], experts_of(bundle), stats["memory"]
    assert sizes.least <= found["slots"] < found["total"] == sizes.total
    assert [line for line in told if f" of {found['total']} experts are in memory at a time" in line]
    assert memory["choice"]["experts"] == found["slots"]
    assert memory["parts"]["experts"] == found["slots"] * sizes.slot_bytes  # fewer since a reply was drawn
    assert memory["most_leased"]["experts"] >= memory["parts"]["experts"]
    assert 0 < found["hits"] < found["held"]
    assert 0 < found["bytes_read"] <= (found["held"] - found["hits"]) * sizes.slot_bytes
    assert found["waited_s"] > 0
    python = ExpertStats(1, 1, StoreCounts(found["held"], found["hits"], 0, 0.0))
    assert found.keys() == python.as_json().keys()
    assert found["hit_rate"] == python.as_json()["hit_rate"]


def test_all_may_be_in_memory(bundle: Path) -> None:
    with native.open(bundle, **SETTINGS) as model:
        assert said(model) == python_says(bundle)
        assert "experts" not in model.stats()
    with native.open(bundle, memory=ROOMY, **SETTINGS) as model:
        assert model.stats()["experts"]["slots"] == experts_of(bundle).total


@pytest.mark.parametrize("name", TWINS)
def test_twins_of_the_catalogue_say_what_python_says(name: str, tmp_path: Path) -> None:
    bundle = tmp_path / "twin"
    export_gguf(write_twin(tmp_path / "twin.gguf", CATALOGUE[name]), bundle)
    settings: dict[str, Any] = {"context": CONTEXT, "draft": "off"}
    found = []
    with Model(prepared_run(bundle, RunConfig(threads=1, **settings))) as model:
        for params in (GREEDY, DRAWN):
            reply = model.complete("hello world", sampling=params)
            reply.read()
            found.append(reply.tokens)
    memory = tight(bundle, context=CONTEXT)
    with native.open(bundle, memory=memory, **{**SETTINGS, "context": CONTEXT}) as streamed:
        assert [streamed.complete("hello world", sampling=one).tokens for one in (GREEDY, DRAWN)] == found
        assert streamed.stats()["experts"]["slots"] < experts_of(bundle).total


def test_a_conversation_goes_on_in_another_budget_and_in_python(bundle: Path, tmp_path: Path) -> None:
    with native.open(bundle, memory=tight(bundle), **SETTINGS) as model:
        model.complete(TEXT, sampling=GREEDY, max_tokens=60)
        model.save(tmp_path / "talk")
        whole = model.complete(TEXT + TEXT, sampling=DRAWN, max_tokens=40)
    for memory in (0, ROOMY):
        with native.open(bundle, memory=memory, **SETTINGS) as model:
            model.restore(tmp_path / "talk")
            ours = model.complete(TEXT + TEXT, sampling=DRAWN, max_tokens=40)
            assert (ours.text, ours.tokens) == (whole.text, whole.tokens)


@pytest.fixture(scope="module", params=[MTP, ASSISTANT])
def phone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder for a phone of a model with experts and its makers' drafter."""
    folder = tmp_path_factory.mktemp(request.param)
    place = made(folder, request.param)
    chosen = choose_drafters((), place.bundle, place.home)
    write_device_folder(DeviceOrder("android", place.bundle, chosen, None, place.home), folder / "phone")
    return folder / "phone"


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_folder_for_a_phone_has_experts_and_their_drafters(phone: Path, on_disk: bool) -> None:
    kind = json.loads((phone / "device.json").read_text())["drafters"][0]["kind"]
    settings = SETTINGS | {"draft": kind}
    with native.open(phone, memory=ROOMY if on_disk else 0, **settings) as model:
        assert said(model) == python_says(phone)
        stats = model.stats()
    assert ("experts" in stats) == on_disk
    assert stats["drafted_by"][kind]["queries"] > 0


def test_a_file_that_is_cut_ends_the_reply_in_one_line(one: Path) -> None:
    """The next reply is whole again, once the file is."""
    asked: dict[str, Any] = {"sampling": GREEDY, "max_tokens": 30}
    with native.open(one, memory=tight(one), **SETTINGS) as model:
        expected = model.complete(TEXT, **asked).tokens
        with cut(one), pytest.raises(BackendError, match=r"^an expert cannot be read: ") as caught:
            model.complete("the end " + TEXT, **asked)
        assert caught.value.message.endswith("the file of the weights has become shorter")
        assert model.complete(TEXT, **asked).tokens == expected


def test_a_budget_that_is_too_small_says_what_would_do(one: Path) -> None:
    with pytest.raises(MemoryBudgetError, match="does not fit") as caught:
        native.plan(one, memory=50_000_000, **SETTINGS)
    assert caught.value.hint
    assert "allow at least" in caught.value.hint


def test_a_small_model_whose_experts_have_no_room_does_not_draft(one: Path, tmp_path: Path) -> None:
    """Its file is larger than any machine's memory, and no memory plan has slots of a drafter."""
    small = Path(shutil.copytree(one, tmp_path / "small"))
    os.truncate(small / "weights.bin", 1 << 42)
    edit(small / "manifest.json", ("files", "weights.bin", "bytes"), 1 << 42)
    told: list[str] = []
    settings = SETTINGS | {"draft": str(small), "notice": told.append}
    with native.open(one, **settings) as model:
        assert model.complete(TEXT, sampling=GREEDY, max_tokens=40).tokens == python_says(one)[0][:40]
        assert model.stats()["draft"] == []
    why = f"runs without {small}, which drafts for it: its experts have no room in memory"
    assert [line for line in told if why in line]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"nbytes": 1 << 40, "slot_bytes": 1 << 40}, "has experts of 1099511627776 bytes, and weights.bin"),
        ({"slot_bytes": 8192}, "an expert is larger than a slot of its store"),
    ],
)
def test_a_manifest_whose_experts_are_others_is_refused(
    one: Path, tmp_path: Path, sizes: dict[str, int], words: str
) -> None:
    shutil.copytree(one, tmp_path, dirs_exist_ok=True)
    experts = experts_of(one)
    stated = json.loads((one / "manifest.json").read_text())["spec"]["experts"] | sizes
    stated["nbytes"] = min(stated["nbytes"], experts.total * stated["slot_bytes"])
    edit(tmp_path / "manifest.json", ("spec", "experts"), stated)
    with pytest.raises(BadFileError, match=words):
        native.plan(tmp_path, memory=ROOMY, **SETTINGS)
