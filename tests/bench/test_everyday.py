"""Everyday prompts: their checks tell right from wrong, and a whole run counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bench.studies.everyday import EverydayReport, EverydayRow
from edgedec.bench.studies.everyday_prompts import EVERYDAY_PROMPTS
from edgedec.export import export_gguf
from tests.bench.test_commands import bench, report
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

TEN = "\n".join(f"{n}. Animal {n}" for n in range(1, 11))
CASES = (
    ("capital of Australia", "It is Canberra.", "It is Sydney."),
    ("leap year", "A leap year has 366 days.", "It has 365 or 3660 days."),
    ("ten animals", f"Here:\n\n{TEN}\n", f"{TEN}\n11. Shark (Shark)"),
    ("even numbers", "2, 4, 6, 8, 10, 12, 14, 16, 18, 20", "2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22"),
    ("Sort these numbers", "3, 7, 19, 42", "42, 19, 7, 3"),
    ("Markdown", "| a | b |\n| --- | --- |\n| France | Paris |", "France: Paris"),
    ("is_even", "def is_even(n):\n    return n % 2 == 0", "def even(n): return n % 2 == 0"),
    ("this review", "The review is negative.", "Negative words, but it is positive"),
    ("JSON", '{"name": "Ann", "age": 3}', "name: Ann"),
)


@pytest.mark.parametrize(("part", "right", "wrong"), CASES)
def test_a_check_tells_right_from_wrong(part: str, right: str, wrong: str) -> None:
    (prompt,) = [one for one in EVERYDAY_PROMPTS if part in one.text]
    assert (prompt.is_right(right), prompt.is_right(wrong)) == (True, False)


def test_there_are_forty_and_most_have_a_right_answer() -> None:
    assert len(EVERYDAY_PROMPTS) == len({one.text for one in EVERYDAY_PROMPTS}) == 40
    assert sum(one.is_right("") is None for one in EVERYDAY_PROMPTS) == 4
    assert not any(one.is_right("") for one in EVERYDAY_PROMPTS)


def test_counts() -> None:
    rows = [EverydayRow("fact", "a", 3, *one, "x") for one in ((True, True), (False, True), (True, None))]
    facts = EverydayReport(rows).as_json()
    assert [facts[name] for name in ("prompts", "ended", "judged", "right")] == [3, 2, 2, 2]


def test_a_run(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    export_gguf(write_tiny(tmp_path / "tiny.gguf", shape=TinyShape(context=2048)), bundle)
    few = ("--threads", "1", "--limit", "3", "--tokens", "8")
    args = ("accuracy", "--task", "everyday", "-m", str(bundle), *few)
    facts = report(bench(tmp_path, *args, "--json"))
    assert (facts["prompts"], facts["judged"], len(facts["by_prompt"])) == (3, 3, 3)
    assert all(1 <= row["tokens"] <= 8 for row in facts["by_prompt"])
    shown = bench(tmp_path, *args).stdout
    assert "end by themselves" in shown
    assert EVERYDAY_PROMPTS[0].text in shown  # wrong, or it runs on
