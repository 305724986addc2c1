"""``edgedec bench drafts --memory``: sides within budgets, on a model of random weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.bench.harness.chat_prompts import ChatPrompts
from edgedec.bench.harness.memory_levels import CURVE, FULL, Level, drafts_end, generation
from edgedec.bench.harness.questions import Question
from edgedec.bundle.manifest import Manifest
from edgedec.cli.bench.options import Levels
from edgedec.core.model_spec import ModelSpec
from edgedec.loaded_model import load_template
from edgedec.memory.footprint import MemoryChoice, MemoryFacts, ModelMemory, footprint
from edgedec.memory.plan import planned
from edgedec.text.tokenizer import Tokenizer
from tests.bench.test_commands import bench, report
from tests.bench.test_questions import written
from tests.cli.support import assert_one_line

MB = 1_000_000
QUESTIONS: list[Any] = [
    {"question_id": 1, "category": "writing", "turns": ["The cat sat on the mat. " * 3, "And the dog? " * 3]},
    {"question_id": 2, "category": "qa", "turns": ["Who sat on the mat, the cat or the dog?"]},
]
SPEC = ModelSpec(
    name="m", architecture="llama", n_layers=4, n_heads=4, n_kv_heads=2, head_dim=64, hidden_size=256,
    vocab_size=1000, context_length=2048, ffn_size=512,
)  # fmt: skip
KNOWN = MemoryFacts(ModelMemory(SPEC, 100 * MB, 2), process=80 * MB)
WANTED = MemoryChoice(context=1500, tables=3 * MB)


def arguments(folder: Path, *more: str) -> list[str]:
    model = ["-m", str(folder / "bundle"), "--threads", "1", "--max-tokens", "10"]
    questions = written(folder / "questions.jsonl", QUESTIONS)
    return ["drafts", *model, "--input", str(questions), *more]


def test_levels_are_budgets() -> None:
    parts = footprint(KNOWN, WANTED)
    given = 180 * MB
    assert sum(parts.values()) - generation(parts) == given
    assert Level("size", 200.0 * MB).budget(KNOWN, WANTED) == 200 * MB
    assert Level("cut", 0.25).budget(KNOWN, WANTED) == pytest.approx(given + 0.75 * generation(parts), abs=2)
    least = Level("least").budget(KNOWN, WANTED)
    kept = planned(KNOWN, WANTED, least, elastic=False).choice
    assert (kept.context, kept.drafted, kept.kv) == (1500, 0, "int8")
    assert planned(KNOWN, WANTED, least - 1, elastic=False).choice.context < 1500
    assert planned(KNOWN, WANTED, FULL.budget(KNOWN, WANTED), elastic=False).given_up == ()


@pytest.mark.parametrize("elastic", [False, True])
def test_where_drafts_end(elastic: bool) -> None:
    end = drafts_end(KNOWN, WANTED, elastic=elastic)
    assert end is not None
    budget = end + 180 * MB
    assert planned(KNOWN, WANTED, budget, elastic=elastic).choice.drafted > 0
    assert planned(KNOWN, WANTED, budget - 1, elastic=elastic).choice.drafted == 0
    assert drafts_end(KNOWN, replace(WANTED, drafted=0, tables=0), elastic=elastic) is None


def test_names_of_levels() -> None:
    read = Levels().convert
    assert [level.name for level in read("-65%", None, None)] == ["-65%"]
    assert read("-0%", None, None) == read("full", None, None) == (FULL,)
    assert read("curve", None, None) == CURVE
    (size,) = read("1.5GB", None, None)
    assert (size.name, size.amount) == ("1.5GB", 1.5e9)


def test_every_level_answers_or_says_why_not(folder: Path, tmp_path: Path) -> None:
    levels = ["--memory", "full", "--memory", "-20%", "--memory", "1MB"]
    save = ["--save", str(tmp_path / "run.jsonl")]
    facts = report(bench(folder, *arguments(folder, *levels, *save, "--json")))
    full, cut, none = (facts["within"][f"edgedec+auto at {name}"] for name in ("full", "-20%", "1MB"))
    assert next(iter(facts["overall"])) == "edgedec"
    assert "does not fit 1.0 MB: it needs" in none["refused"]
    assert full["given_up"] == []
    assert full["budget_bytes"] is None
    assert full["speed"]["median"] == 1.0
    assert cut["given_up"]
    assert cut["generation_bytes"] <= cut["generation_allowed_bytes"]
    assert cut["generation_allowed_bytes"] == pytest.approx(0.8 * full["generation_bytes"], rel=0.01)
    for side in (full, cut):
        assert 0 < side["generation_measured_bytes"] < side["generation_and_process_bytes"]
        assert side["differing_replies"] == 0
        assert not side["over_budget"]
        assert side["too_long"] == 0
    again = report(bench(folder, *arguments(folder, *levels, *save, "--json")))
    assert again["within"] == facts["within"]  # nothing was measured a second time


def test_conversations_with_a_context_are_those_of_a_chat(folder: Path) -> None:
    bundle = folder / "bundle"
    manifest = Manifest.load(bundle)
    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    template = load_template(bundle, tokenizer, manifest)
    question = Question("1", "qa", ("The cat sat on the mat. " * 2, "And the dog? " * 2, "Where?"))
    free, bound = (ChatPrompts(tokenizer, template, ()) for _ in range(2))
    lengths = []
    for turn in question.turns:
        lengths.append((len(free.prompt(turn)), len(bound.prompt(turn, 128, 8)), bound.dropped))
        for one in (free, bound):
            one.add_reply([40] * 8)
    assert lengths[0][0] == lengths[0][1]
    assert [dropped for *_, dropped in lengths][-1] >= 1
    assert lengths[-1][1] <= 128 < lengths[-1][0]


@pytest.mark.parametrize("size", ["much", "-200%"])
def test_errors_are_one_line(folder: Path, size: str) -> None:
    assert_one_line(bench(folder, *arguments(folder, "--memory", size)), 2, "is not a size")
