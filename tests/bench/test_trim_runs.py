"""``edgedec bench trim``: heads of several sizes answer the same questions, on a model of random weights."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from edgedec.core.drafter_manifest import Target
from edgedec.core.manifest import Manifest
from edgedec.training.rollouts import Rollout, RolloutStore, key_of, rollouts_folder
from tests.bench.test_commands import bench, report
from tests.bench.test_drafts import QUESTIONS
from tests.bench.test_questions import written
from tests.cli.support import assert_one_line
from tests.fixtures.tiny_models import tiny_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


def gathered(bundle: Path, home: Path) -> int:
    """The model has replied with few tokens; returns the last exit."""
    manifest = Manifest.load(bundle)
    target = Target.of(manifest)
    home.mkdir()
    with RolloutStore(rollouts_folder(home, target)).writing(target) as writer:
        for number in range(40):
            writer.add(Rollout([5], list(range(40, 56)), key_of(f"question {number}"), greedy=True))
    return manifest.spec.n_layers


def test_every_head_drafts_in_every_round_and_says_the_same(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(
        "edgedec.draft.subset.always_kept", lambda tokenizer, ends: np.array(ends, dtype=np.int64)
    )
    layers = gathered(bundle, tmp_path / "home")
    picture = tmp_path / "trim.svg"
    questions = written(tmp_path / "questions.jsonl", QUESTIONS)
    model = ["-m", str(bundle), "--draft", f"exit-{layers}", "--threads", "1", "--steps", "3"]
    asked = ["--input", str(questions), "--turns", "1", "--limit", "1", "--max-tokens", "9"]
    args = [*model, *asked, "--ids", "256", "--plot", str(picture)]
    found = report(bench(tmp_path, "trim", *args, "--save", str(tmp_path / "run.jsonl"), "--json"))
    trimmed, full = found["heads"]
    assert trimmed["ids"] < full["ids"] == Manifest.load(bundle).spec.vocab_size
    assert set(found["differing_replies"].values()) == {0}
    assert full["coverage"] == full["acceptance_rate"] == 1.0  # a draft after all layers with the whole head
    assert full["block_efficiency"] == 4.0
    assert 0 < full["mbsu"] <= 1.0  # four tokens for three draft steps and a pass, which read as much
    assert trimmed["draft_bytes_per_round"] < full["draft_bytes_per_round"]
    assert full["mbsu_gain"] == 1.0
    assert full["acceptance_by_category"] == {"mt_bench": 1.0}
    assert full["tokens_per_s"] > 0 < full["speed_up_by_processor_time"]
    drawn = re.findall(r"<!-- (.*?) -->", picture.read_text(encoding="utf-8"))
    assert {"MBSU", "drafted tokens accepted"} <= set(drawn)
    table = bench(tmp_path, "trim", *args, "--save", str(tmp_path / "run.jsonl")).stdout
    assert "over full" in table
    assert "replies that differ from plain decoding: none" in table


def test_the_head_of_a_draft_model_is_trimmed_too(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "edgedec.draft.subset.always_kept", lambda tokenizer, ends: np.array(ends, dtype=np.int64)
    )
    gathered(bundle, tmp_path / "home")
    model = ["-m", str(bundle), "--draft", str(bundle), "--threads", "1", "--ids", "256"]
    asked = ["--limit", "1", "--max-tokens", "9", "--json"]
    trimmed, full = report(bench(tmp_path, "trim", *model, *asked))["heads"]
    assert 0 < trimmed["draft_bytes_per_round"] < full["draft_bytes_per_round"]


@pytest.mark.parametrize(
    ("draft", "words"),
    [("lookup", ["not one drafter"]), ("exit", ["exit-18"]), ("exit-2", ["no replies", "draft rollouts"])],
)
def test_errors_are_one_line(bundle: Path, tmp_path: Path, draft: str, words: list[str]) -> None:
    assert_one_line(bench(tmp_path, "trim", "-m", str(bundle), "--draft", draft), 2, *words)
