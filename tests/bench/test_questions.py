"""Files of questions, and which of them are asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgedec.bench.harness.questions import Question, chosen, read_questions
from edgedec.core.errors import BadFileError, NotFoundError

LINES: list[Any] = [
    {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."]},
    {"question_id": 82, "category": "math", "turns": ["Add.", "More."]},
    {"question_id": 83, "category": "writing", "turns": ["Tell."]},
    {"question_id": 300, "category": "rag", "turns": ["Find."]},
]


def written(path: Path, lines: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return path


def test_the_format_of_spec_bench(tmp_path: Path) -> None:
    questions = read_questions(written(tmp_path / "q.jsonl", LINES))
    assert questions[0] == Question("81", "writing", ("Write.", "Again."))
    assert [one.group for one in questions] == ["mt_bench", "mt_bench", "mt_bench", "rag"]


def test_prompts_without_categories(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("One.\n\nTwo.\n", encoding="utf-8")
    questions = read_questions(tmp_path / "p.txt")
    assert [(one.key, one.category, one.turns) for one in questions] == [
        ("1", "prompts", ("One.",)),
        ("2", "prompts", ("Two.",)),
    ]
    assert read_questions(written(tmp_path / "p.jsonl", ["One.", {"prompt": "Two."}])) == questions


def test_a_choice_of_them(tmp_path: Path) -> None:
    questions = read_questions(written(tmp_path / "q.jsonl", LINES))

    def keys(**choice: Any) -> list[str]:
        return [one.key for one in chosen(questions, **choice)]

    assert keys() == ["81", "82", "83", "300"]
    assert keys(per_category=1) == ["81", "82", "300"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"question_id": 1, "turns": ["a", 2]}, "line 1: its turns"),
        ({"question_id": 1, "turns": []}, "line 1"),
        ({"question_id": 1, "category": ["x"], "turns": ["a"]}, "line 1: its category"),
        ({"question_id": 1, "category": "\x1b[2J", "turns": ["a"]}, "line 1: its category"),
        ({"question_id": [1], "turns": ["a"]}, "line 1: its question_id"),
    ],
)
def test_damaged_questions_are_refused(tmp_path: Path, line: Any, words: str) -> None:
    with pytest.raises(BadFileError, match=words):
        read_questions(written(tmp_path / "q.jsonl", [line]))


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_questions(tmp_path / "none.jsonl")
    with pytest.raises(BadFileError, match="question_id twice"):
        read_questions(written(tmp_path / "q.jsonl", [LINES[0], LINES[0]]))
