"""``edgedec draft exits`` and ``draft train --kind exit``: how often exits agree, and fitted ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgedec.control import Uncontrolled
from edgedec.core.cache_config import CacheConfig
from edgedec.core.drafter_manifest import EXIT, SKIP, DrafterManifest, Target
from edgedec.core.manifest import Manifest
from edgedec.draft.exit import skipping
from edgedec.export import export_gguf
from edgedec.runtime.config import RunConfig
from edgedec.runtime.loaded_model import load_models
from edgedec.runtime.runner import Runner
from edgedec.runtime.skips import save_skip
from edgedec.runtime.surroundings import Surroundings
from edgedec.sampling import DrawParams
from edgedec.training.rollouts import Rollout, RolloutStore, held_out, key_of, rollouts_folder
from tests.cli.support import Home, assert_one_line, run
from tests.cli.test_generate_batch import real
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import tiny_bundle

ASKED = next(f"question {n}" for n in range(1000) if held_out(f"question {n}"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


@pytest.fixture
def replied(home: Home, bundle: Path) -> list[int]:
    return replies(home, bundle)


def replies(home: Home, bundle: Path) -> list[int]:
    """Let the model reply greedily to a few prompts, one of them held out; return the exits that it has."""
    manifest = Manifest.load(bundle)
    target, backend = Target.of(manifest), load_models(bundle, {}, 1, True).target.backend
    forward = backend.forward(CacheConfig(96))
    home.path.mkdir(exist_ok=True)
    with RolloutStore(rollouts_folder(home.path, target)).writing(target) as writer:
        for number, asked in enumerate([ASKED, "question 0", "question 1", "question 2"]):
            prompt = [5 + number, 6, 7]
            forward.rewind(0)
            reply = [int(forward.extend(prompt).ids[0, 0])]
            while len(reply) < 60:
                reply.append(int(forward.extend(reply[-1:]).ids[0, 0]))
            writer.add(Rollout(prompt, reply, key_of(asked), greedy=True))
    return list(backend.caps.exits)


def report(home: Home, bundle: Path, *arguments: str) -> dict[str, Any]:
    args = ("-m", str(bundle), "--threads", "1", "--tokens", "100", "--json")
    result = run(real(home), "draft", *arguments, *args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_all_layers_agree_with_the_model_and_every_way_has_its_figures(
    home: Home, bundle: Path, replied: list[int]
) -> None:
    found = report(home, bundle, "exits", "--skip", "--repeat", "2")
    ways = {way["name"]: way for way in found["ways"]}
    inner = replied[:-1]
    skips = {f"skip-{a}-{b}" for a in inner for b in inner if b > a}
    assert set(ways) == {f"exit-{exit}" for exit in replied} | skips
    assert ways[f"exit-{replied[-1]}"]["agreement"] == 1.0
    assert all(0.0 <= way["agreement"] <= 1.0 and way["step"] > 0 for way in ways.values())
    assert all(0.0 <= way["corrected"] <= 1.0 for way in ways.values())
    assert ways[f"exit-{replied[-1]}"]["corrected"] == 1.0
    assert found["tokens"] == 60


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    export_gguf(write_tiny(folder / "deep.gguf", shape=TinyShape(layers=5, context=512)), folder / "deep")
    return folder / "deep"


def test_a_search_keeps_the_best_set_of_layers_to_skip(home: Home, deep: Path) -> None:
    exits = replies(home, deep)
    assert len(exits) == 5
    found = report(home, deep, "exits", "--skip", "--search", "--repeat", "1", "--measure", "16")
    names = {way["name"] for way in found["ways"]}
    assert names > {"exit-5", "skip-1-2", "skip-2-3", "skip-3-4", "skip-1-4"}
    assert len(names) == 5 + 6
    speeds = {way["name"]: way["predicted_speed"] for way in found["ways"] if way["name"].startswith("skip")}
    manifest = Manifest.load(deep)
    folder = home.path / "drafters" / Target.of(manifest).short_hash / SKIP
    kept = DrafterManifest.load(folder)
    assert speeds[kept.facts["way"]] == max(speeds.values())
    assert kept.facts["predicted speed"] == pytest.approx(max(speeds.values()), abs=0.001)
    refused = run(real(home), "draft", "exits", "-m", str(deep), "--search")
    assert_one_line(refused, 2, "--search is for layers to skip")


@pytest.mark.parametrize("params", ["greedy", "sampled"])
def test_a_set_that_was_searched_drafts_and_changes_no_token(
    home: Home, deep: Path, params: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedec.draft.exit._UNSURE_NATS", 100.0)
    model = load_models(deep, {}, 1, True)
    drawn = DrawParams() if params == "greedy" else DrawParams(temperature=0.8, seed=3)

    def reply(draft: str) -> tuple[list[int], list[str], tuple[str, ...]]:
        said: list[str] = []
        around = Surroundings(home.path, said.append)
        engine = Runner(model, RunConfig(draft=draft, threads=1, context=128), around).engine
        if engine.speculation:
            engine.speculation._control = Uncontrolled(engine.speculation.drafters)
        steps = engine.generate([5, 6, 7], drawn, max_tokens=24, stop_ids=())
        lines = [line for line in said if "measuring" not in line]
        drafters = engine.speculation.drafters if engine.speculation else ()
        return [step.token for step in steps], lines, drafters

    expected = reply("off")[0]
    assert reply("skip-1-2-3-4") == (expected, [], ("skip-1-2-3-4",))
    save_skip(model.target.manifest, home.path, skipping(1, 2, 3, 4), 1.2, {})
    assert reply("skip") == (expected, [], ("skip-1-2-3-4",))
    save_skip(model.target.manifest, home.path, skipping(1, 2, 3, 4), 0.9, {})
    assert reply("skip") == (expected, [], ())
    save_skip(model.target.manifest, home.path, skipping(1, 2, 3, 9), 1.2, {})
    tokens, (line,), _ = reply("skip")
    assert tokens == expected
    assert "no way past its layers named 'skip-1-2-3-9'" in line


def test_trained_exits_are_installed_where_they_agree_more_often(
    home: Home, bundle: Path, replied: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedec.training.exit_training.CHOOSING_TOKENS", 20)
    monkeypatch.setattr("edgedec.runtime.exits.MOST_SHARE", 1.0)
    monkeypatch.setattr("edgedec.training.exit_training.MOST_SHARE", 1.0)
    found = report(home, bundle, "train", "--kind", "exit", "--rank", "16")
    target = Target.of(Manifest.load(bundle))
    folder = home.path / "drafters" / target.short_hash / EXIT
    better = [one for one in found["agreement"] if one["trained"] > one["untrained"]]
    late = [exit for exit in replied[:-1] if 2 * exit >= replied[-1]]
    assert [one["exit"] for one in found["agreement"]] == late
    assert better, "a correction of these repeating replies must agree more often"
    manifest = DrafterManifest.load(folder)
    assert sorted(manifest.files) == sorted(f"exit-{one['exit']}.npz" for one in better)
    for one in better:
        assert manifest.facts[f"agreement after {one['exit']} layers"] == one["trained"]
    names = {way["name"] for way in report(home, bundle, "exits", "--repeat", "1")["ways"]}
    assert {f"exit-{one['exit']}, trained" for one in better} < names
    again = report(home, bundle, "train", "--kind", "exit", "--rank", "16")
    assert again["agreement"] == found["agreement"]


def test_exits_that_do_not_exist_or_take_too_much_are_refused(
    home: Home, bundle: Path, replied: list[int]
) -> None:
    train = ("draft", "train", "--kind", "exit", "-m", str(bundle))
    missing = run(real(home), *train, "--exit", "999")
    assert_one_line(missing, 2, "no early exit after 999 layers", "there are")
    large = run(real(home), *train, "--rank", "500")
    assert_one_line(large, 2, "more than 3% of its bytes", "rank of at most")
