"""Questions with one right number: how replies are read, how sides are compared, and a whole run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from edgedec.bench.harness.journal import Journal, SideAnswer
from edgedec.bench.harness.worker import Worker
from edgedec.bench.studies.quality import MathProblem, PairedCounts, compared, read_problems
from edgedec.core.errors import BadFileError
from edgedec.text.last_number import last_number
from tests.bench.support import estimated
from tests.bench.test_commands import bench, report
from tests.bench.test_questions import written

QUESTIONS: list[Any] = [
    {"question": "How many?", "answer": "2 + 2 = <<2+2=4>>4.\n#### 4"},
    {"question": "And how many of them?", "answer": "#### 1,234"},
    {"question": "What is left?", "answer": "Nothing.\n#### -7"},
]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("So 3 + 4 = 7.", "7"),
        ("She pays $1,250.", "1250"),
        ("The answer is **-12**", "-12"),
        ("First 5, then 6\n#### 11", "11"),
        ("It costs $3.50", "3.50"),
        ("I do not know", None),
        ("", None),
    ],
)
def test_the_last_number_is_the_answer(text: str, number: str | None) -> None:
    assert last_number(text) == number


def test_the_format_of_gsm8k(tmp_path: Path) -> None:
    found = read_problems(written(tmp_path / "q.jsonl", QUESTIONS))
    assert found[1] == MathProblem("2", "And how many of them?", "1234")
    assert [one.answer for one in found] == ["4", "1234", "-7"]
    for line in ("a text", {"question": "Why?"}, {"question": "Why?", "answer": "4"}):
        with pytest.raises(BadFileError, match="line 1: no answer that ends in `#### NUMBER`"):
            read_problems(written(tmp_path / "bad.jsonl", [line]))
    (tmp_path / "q.txt").write_text("How many?\n", encoding="utf-8")
    with pytest.raises(BadFileError, match="not in the format of GSM8K"):
        read_problems(tmp_path / "q.txt")


def test_mcnemar_is_the_binomial_test() -> None:
    """3 against 11 discordant pairs: 2 * (1 + 14 + 91 + 364) / 2^14."""
    base = [True] * 11 + [False] * 3 + [True] * 40 + [False] * 5
    side = [False] * 11 + [True] * 3 + [True] * 40 + [False] * 5
    found = PairedCounts.of(base, side)
    assert astuple(found) == (40, 11, 3, 5)
    assert found.p_value == pytest.approx(2 * 470 / 2**14)
    assert PairedCounts.of(side, base).p_value == found.p_value
    assert PairedCounts.of(base, base).p_value == 1.0


def test_only_questions_that_all_sides_answered_count() -> None:
    end = 9
    journal = Journal({})
    for question, side, tokens in [
        ("1", "edgedec", [4, end]), ("1", "edgedec+int8", [4, end]),
        ("2", "edgedec", [5, end]), ("2", "edgedec+int8", [6]),
        ("3", "edgedec", [7, end]),
    ]:  # fmt: skip
        journal.add(SideAnswer(question, 0, side, 1, tokens, 0.1, 0.1))
    problems = [MathProblem("1", "?", "4"), MathProblem("2", "?", "6"), MathProblem("3", "?", "7")]

    def decode(tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens))

    sides = ["edgedec", "edgedec+int8"]
    count, found = compared(problems, journal, sides, decode=decode, ends=(end,))
    assert count == 2
    base, int8 = found["edgedec"], found["edgedec+int8"]
    assert (base.right, int8.right) == ([True, False], [True, True])
    assert (int8.paired, int8.identical, int8.cut) == (PairedCounts(1, 0, 1, 0), 1, 1)
    assert (base.identical, base.cut) == (2, 0)


def arguments(folder: Path, *more: str) -> list[str]:
    model = ["-m", str(folder / "bundle"), "--threads", "1"]
    questions = written(folder / "gsm8k.jsonl", QUESTIONS)
    return ["accuracy", "--task", "quality", *model, "--input", str(questions), *more]


def test_a_run_goes_on_where_it_was_interrupted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = ["--save", str(tmp_path / "run.jsonl"), "--json"]
    request, replies = Worker.request, 0

    def impatient(worker: Worker, op: str, **more: Any) -> dict[str, Any]:
        nonlocal replies
        replies += op == "reply"
        if replies == 6:  # both sides warm up with one
            raise KeyboardInterrupt
        return request(worker, op, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "request", impatient)
        stopped = bench(folder, *arguments(folder, *save))
    assert stopped.exit_code == 130
    early = json.loads(stopped.stdout)
    assert (early["questions"], early["answered"]) == (3, 1)
    whole = report(bench(folder, *arguments(folder, *save)))
    assert (whole["answered"], list(whole["sides"])) == (3, ["fp16", "int8"])
    fp16, int8 = whole["sides"].values()
    assert fp16["identical_replies"] == 3
    assert int8["kv_bytes_per_token"] < 0.6 * fp16["kv_bytes_per_token"]
    assert int8["both_right"] + int8["neither_right"] + int8["only_this_right"] <= 3
    assert report(bench(folder, *arguments(folder, *save))) == whole
    table = bench(folder, *arguments(folder, *save[:2])).stdout
    assert "mJ/token: an estimate with its bounds, not a measurement" in table
    assert "3 of 3 questions" in table
    assert "same reply" in table


@pytest.mark.usefixtures("unmetered")
def test_a_cache_too_small_for_the_questions(folder: Path, tmp_path: Path) -> None:
    lossy = ["--when-full", "slide", "--when-full", "speckv", "--kv", "fp16"]
    facts = report(bench(folder, *arguments(folder, *lossy, "--json", "--save", str(tmp_path / "run"))))
    assert list(facts["sides"]) == ["fp16", "fp16 slide 128", "fp16 speckv 128"]
    assert sorted(estimated(facts)) == sorted(facts["sides"])
    saved = json.loads((tmp_path / "run").read_text(encoding="utf-8").splitlines()[0])
    assert saved["conditions"]["base"] == "fp16"
    exact, slide, speckv = facts["sides"].values()
    assert slide["kv_cache_bytes"] == speckv["kv_cache_bytes"] < exact["kv_cache_bytes"]
    assert exact["kv_bytes_per_token"] == slide["kv_bytes_per_token"]
    assert max(slide["identical_replies"], speckv["identical_replies"]) < 3
