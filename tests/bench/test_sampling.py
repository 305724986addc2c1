"""The sampling task of ``edgedec bench accuracy``: replies that repeat themselves are told from others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.bench.studies.sampling import repeated
from tests.cli.support import Home, assert_one_line, run
from tests.cli.test_generate_batch import real
from tests.fixtures.tiny_models import tiny_bundle

STUDY = ("bench", "accuracy", "--task", "sampling")
ARGS = ("--max-tokens", "120", "--threads", "1")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


def test_the_share_of_repeated_4_grams() -> None:
    assert repeated([]) == repeated([1, 2, 3]) == repeated(list(range(50))) == 0.0
    assert repeated([1, 2] * 50) == 1 - 2 / 97
    assert repeated([1, 2, 3, 4, 5, 1, 2, 3, 4]) == 1 - 5 / 6


def test_settings_are_compared(home: Home, bundle: Path, tmp_path: Path) -> None:
    """A random model loops in greedy decoding, and not at a high temperature with a penalty."""
    home.path.mkdir()
    questions = tmp_path / "q.jsonl"
    lines = [{"question": text, "answer": "#### 4"} for text in ("hello", "one two", "and")]
    questions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    tries = ("--try", "greedy", "--try", "temperature=1.2,repetition-penalty=1.3,top-k=50", "--try", "preset")
    args = (*STUDY, "-m", str(bundle), *ARGS, "--input", str(questions), "--answers", *tries)
    result = run(real(home), *args, "--json")
    assert result.exit_code == 0, result.output
    greedy, wild, preset = json.loads(result.stdout)["results"]
    assert (greedy["sampling"], preset["sampling"]) == ("greedy", "greedy")
    assert wild["sampling"] == "temperature 1.2, top-k 50, repetition penalty 1.3"
    assert greedy == preset
    assert greedy["repeated"] > 0.5 > wild["repeated"]
    assert greedy["loops"] > wild["loops"] == 0
    assert greedy["mean_logprob"] > wild["mean_logprob"]
    assert 0 <= greedy["right"] <= greedy["replies"] == 3
    shown = run(real(home), *args[:-6], "--try", "greedy").stdout
    assert "repeated  loops  at limit" in shown
    _, _, heads, figures, _, energy, _, last = shown.splitlines()
    assert heads.startswith("repeated")
    assert figures.endswith("greedy")
    assert energy.startswith("mJ/token: an estimate with its bounds, not a measurement")
    assert last.startswith("greedy  ~")


@pytest.mark.parametrize("wrong", ["hot", "temperature=hot", "heat=1", "temperature=-1", "top_k=1.5"])
def test_a_setting_that_is_none_is_refused_before_a_model_is_opened(home: Home, wrong: str) -> None:
    home.path.mkdir()
    assert_one_line(run(home.services(), *STUDY, "--try", wrong), 2)
    several = ("--input", "a", "--input", "b")
    assert_one_line(run(home.services(), *STUDY, *several), 2, "takes one --input")
    assert home.opened == []


def test_easy_questions_are_those_of_the_study(home: Home, bundle: Path) -> None:
    home.path.mkdir()
    args = (*STUDY, "-m", str(bundle), *ARGS, "--answers", "--limit", "3", "--try", "greedy", "--json")
    (found,) = json.loads(run(real(home), *args).stdout)["results"]
    assert found["replies"] == 3
    assert found["right"] is not None
