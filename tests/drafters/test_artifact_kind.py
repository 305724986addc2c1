"""Drafters that belong to real tiny models: found, opened, planned for, and exact."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from edgedec.bundle import assistant_facts, head_facts, mtp_facts
from edgedec.bundle.drafter_manifest import ASSISTANT, DRAFTER, HEAD, MTP
from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.errors import NotFoundError, UsageError
from tests.fixtures.carried import PLACES, Place, damage, plenty
from tests.fixtures.nightly import diagonal
from tests.fixtures.replies import GREEDY, PROMPT, SAMPLED, always, check_replies, reply

TITLES = {HEAD: "trained head", MTP: "MTP layer", ASSISTANT: "assistant"}
GRAPHS = {HEAD: head_facts.GRAPH, MTP: mtp_facts.GRAPH, ASSISTANT: assistant_facts.GRAPH}
ARCHITECTURES = ("llama", "qwen2", "gemma3")


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return PLACES[request.param](tmp_path_factory.mktemp(request.param))


CARRIED: list[tuple[str, str, dict[str, object]]] = [
    *((HEAD, name, {"quant": quant}) for name in ARCHITECTURES for quant in ("q8_0", "q4_0,head=q4_0")),
    *((MTP, name, {}) for name in ARCHITECTURES),
    *((ASSISTANT, name, {"centroids": count}) for name in ("gemma3", "gemma4") for count in (0, 41)),
    (ASSISTANT, "gemma4moe", {"centroids": 0}),
]


@pytest.mark.parametrize(("carried", "kv"), diagonal(CARRIED, ("fp16", "int8")), ids=str)
def test_replies_are_those_without_drafts(
    tmp_path: Path, carried: tuple[str, str, dict[str, object]], kv: str
) -> None:
    kind, architecture, how = carried
    place = PLACES[kind](tmp_path, architecture, **how)
    plain, drafted = place.runner("off", kv=kv).engine, place.runner(kv=kv).engine
    assert drafted.speculation
    assert drafted.speculation.drafters == (kind,)
    with always(drafted):
        check_replies(plain, drafted)
    assert drafted.speculation.tally.drafted > 100
    assert drafted.speculation.drafters == (kind,)
    assert drafted.speculation.tally.by_drafter[kind].bytes_read > 0


def test_with_other_drafters_and_under_control_replies_are_the_same(place: Place) -> None:
    plain, drafted = place.runner("off").engine, place.runner(f"lookup,recycling,{place.kind},exit").engine
    for params in (GREEDY, SAMPLED):
        assert reply(drafted, PROMPT, params, 100) == reply(plain, PROMPT, params, 100)


def test_it_drafts_without_a_name_and_not_in_a_batch(place: Place) -> None:
    assert place.kind in [spec.name for spec in place.runner("auto").drafting.drafters]
    with pytest.raises(UsageError, match=f"{place.kind} cannot draft for a batch"):
        place.runner(conversations=2)
    batch = place.runner("auto", conversations=2)
    assert place.kind not in [spec.name for spec in batch.drafting.drafters]


@pytest.mark.parametrize("kind", [HEAD, MTP])  # no token leaves the cache of an assistant's target
def test_where_tokens_leave_the_cache_replies_are_the_same(tmp_path: Path, kind: str) -> None:
    place = PLACES[kind](tmp_path)
    settings = {"context": 64, "when_full": "slide"}
    plain, runner = place.runner("off", **settings).engine, place.runner(**settings)
    with always(runner.engine):
        assert reply(runner.engine, PROMPT, SAMPLED, 150) == reply(plain, PROMPT, SAMPLED, 150)
    assert runner.engine.speculation
    assert runner.engine.speculation.drafters == (place.kind,)


def test_its_memory_is_planned_and_leased(place: Place) -> None:
    runner = place.runner(memory=plenty)
    assert runner.budget
    with always(runner.engine):
        reply(runner.engine, PROMPT * 20, GREEDY)
    plan, most = runner.budget.plan.parts, runner.ledger.most()
    assert 0 < most[place.kind] <= plan[place.kind] <= 1.1 * most[place.kind]
    assert most["hidden"] <= plan["hidden"]


@pytest.mark.parametrize("part", ["graph", WEIGHTS, DRAFTER])
@pytest.mark.parametrize("kind", PLACES)
def test_a_damaged_one_is_refused_and_the_model_runs_without_it(tmp_path: Path, kind: str, part: str) -> None:
    place = PLACES[kind](tmp_path)
    if part == DRAFTER:
        text = (place.folder / DRAFTER).read_text().replace('"hidden": 64', '"hidden": 32')
        (place.folder / DRAFTER).write_text(text)
    else:
        damage(place.folder, GRAPHS[kind] if part == "graph" else part)
    plain, runner = place.runner("off").engine, place.runner()
    assert not runner.prepared.opened
    assert len(place.said) == 1
    assert f"{place.manifest.name} runs without its {TITLES[kind]}: " in place.said[0]
    assert runner.engine.speculation is None
    assert reply(runner.engine, PROMPT, GREEDY) == reply(plain, PROMPT, GREEDY)


@pytest.mark.parametrize("kind", PLACES)
def test_a_model_without_one_says_so(tmp_path: Path, kind: str) -> None:
    place = PLACES[kind](tmp_path)
    shutil.rmtree(place.folder)
    with pytest.raises(NotFoundError, match=f"{place.manifest.name} has no {TITLES[kind]}"):
        place.runner()


@pytest.mark.parametrize("kind", [HEAD, MTP, ASSISTANT])
def test_a_drafter_that_is_written_again_has_the_same_bytes(tmp_path: Path, kind: str) -> None:
    """Manifests list their files in the order that they had in earlier versions, too."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    written = [PLACES[kind](tmp_path / name).folder for name in ("one", "two")]
    files = [{path.name: path.read_bytes() for path in sorted(folder.iterdir())} for folder in written]
    assert files[0] == files[1]
    listed = [*json.loads(files[0][DRAFTER])["files"]]
    assert listed == ([WEIGHTS, GRAPHS[kind]] if kind == MTP else [GRAPHS[kind], WEIGHTS])
