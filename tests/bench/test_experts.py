"""``edgedec bench experts``: a model's own routing and drawn ones, replayed with every policy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.onnx.model import OnnxModel
from edgedec.bench.studies import experts
from edgedec.bench.studies.experts import BEST, POLICIES, SHARES, Drawn, again, drawn, recorded
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from tests.bench.test_commands import bench
from tests.cli.support import assert_one_line
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

LAYERS, COUNT, CHOSEN = 3, 12, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experts")
    shape = TinyShape(layers=LAYERS, experts=ExpertShape(count=COUNT, chosen=CHOSEN, width=32))
    export_gguf(write_tiny(folder / "tiny.gguf", "qwen3moe", shape=shape), folder / "bundle")
    export_gguf(write_tiny(folder / "dense.gguf"), folder / "dense")
    (folder / "questions.txt").write_text("The cat sat on the mat.\nThe dog did not.\n", encoding="utf-8")
    return folder


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experts, "DRAWN", {"again 50 %": Drawn(8, 2, 0.5, layers=2, tokens=20)})
    monkeypatch.setattr(experts, "REPLY_TOKENS", 8)


@pytest.mark.usefixtures("_few")
def test_no_policy_has_more_hits_than_the_best_possible(folder: Path) -> None:
    given = ("-m", str(folder / "bundle"), "--input", str(folder / "questions.txt"))
    done = bench(folder, "experts", *given, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert [one["routing"] for one in facts["routings"]] == ["recorded", "again 50 %"]
    assert facts["questions"] == 2
    for one in facts["routings"]:
        assert len(one["slots"]) == len(SHARES)
        assert one["hits"].keys() == POLICIES.keys()
        for rates in one["hits"].values():
            assert all(0 <= rate <= best for rate, best in zip(rates, one["hits"][BEST], strict=True))
            assert rates[0] < rates[-1]
    shown = bench(folder, "experts", *given).stdout
    assert "recorded: " in shown
    assert f"{facts['routings'][0]['hits'][BEST][0]:.1%} (1.00)" in shown


def test_a_model_without_experts_is_refused_in_one_line(folder: Path) -> None:
    done = bench(folder, "experts", "-m", str(folder / "dense"))
    assert_one_line(done, 5, "experts")


def test_a_recorded_routing_has_every_pass_and_layer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experts, "REPLY_TOKENS", 5)
    manifest = Manifest.load(folder / "bundle")
    ends = [token for token in range(manifest.spec.vocab_size) if token in manifest.spec.eos_ids]
    assert len(ends) < 4
    model = OnnxModel(folder / "bundle", manifest, place=DevicePlace(memory=1), threads=1)
    routing = recorded(model, [[5, 6, 7], [8]], lambda *_: None)
    assert model.experts is not None
    assert (routing.layers, routing.count) == (LAYERS, COUNT)
    assert routing.asked == model.experts.counts().held
    assert [int(one[0]) // COUNT for one in routing.requests] == [*range(LAYERS)] * (
        len(routing.requests) // LAYERS
    )
    lengths = [len(one) for one in routing.requests]
    assert CHOSEN <= lengths[0] <= 3 * CHOSEN
    assert set(lengths[LAYERS : 3 * LAYERS]) == {CHOSEN}


@pytest.mark.parametrize("share", [None, 0.1, 0.43])
def test_a_drawn_routing_takes_experts_again_as_often_as_stated(share: float | None) -> None:
    sizes = Drawn(40, 4, share, layers=2, tokens=1500)
    routing = drawn(sizes, seed=3)
    assert again(routing) == pytest.approx(0.1 if share is None else share, abs=0.02)
    counts = np.bincount(np.concatenate(routing.requests), minlength=routing.total)
    assert counts.min() > 0.7 * counts.mean()
    assert {len(set(one.tolist())) for one in routing.requests} == {4}
