"""Files of questions, and which of them are asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgedec.bench.harness.fixed_lengths import LENGTHS, fixed_length_questions
from edgedec.bench.harness.questions import Question, chosen, read_questions
from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from tests.grammar.support import tokenizer

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


SPEED: list[Any] = [
    {
        "question_id": f"id{n}",
        "category": category,
        "sub_category": "",
        "turns": turns,
        "multiturn": len(turns) > 1,
    }
    for n, (category, turns) in enumerate(
        [("math", ["Add.", "More."]), ("rag", ["Find."]), ("low_entropy", ["Sort."])]
    )
]


def test_the_formats_of_speed_bench(tmp_path: Path) -> None:
    """Its mathematics is a group of its own, and no part of MT-Bench."""
    questions = read_questions(written(tmp_path / "q.jsonl", SPEED))
    assert [one.key for one in questions] == ["id0", "id1", "id2"]
    assert [one.group for one in questions] == ["math", "rag", "low_entropy"]
    assert questions[0].turns == ("Add.", "More.")
    talks = [
        {**{name: row[name] for name in row if name != "turns"}, "messages": messages(row["turns"])}
        for row in SPEED
    ]
    assert read_questions(written(tmp_path / "m.jsonl", talks)) == questions
    system = {"role": "system", "content": "Be brief."}
    [spoken] = read_questions(
        written(tmp_path / "s.jsonl", [{**talks[0], "messages": [system, *talks[0]["messages"]]}])
    )
    assert spoken.turns == ("Be brief.\n\nAdd.", "More.")


def messages(turns: list[str]) -> list[dict[str, str]]:
    """A conversation with answers of another model, which are not asked for."""
    pairs = [({"role": "user", "content": one}, {"role": "assistant", "content": "Yes."}) for one in turns]
    return [message for pair in pairs for message in pair][:-1]


def test_parquet_is_read_where_there_is_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Table:
        @staticmethod
        def to_pylist() -> list[Any]:
            return SPEED

    class ArrowInvalidError(ValueError):
        pass

    def read_table(path: Path) -> Table:
        if path.name == "broken.parquet":
            raise ArrowInvalidError("no magic bytes\nat the end")
        return Table()

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(UnsupportedError, match="needs pyarrow"):
            read_questions(tmp_path / "test.parquet")
    library, reader = ModuleType("pyarrow"), ModuleType("pyarrow.parquet")
    library.__dict__["ArrowInvalid"], reader.__dict__["read_table"] = ArrowInvalidError, read_table
    monkeypatch.setitem(sys.modules, "pyarrow", library)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", reader)
    found = read_questions(tmp_path / "test.parquet")
    assert found == read_questions(written(tmp_path / "q.jsonl", SPEED))
    with pytest.raises(BadFileError, match="is no Parquet file: no magic bytes"):
        read_questions(tmp_path / "broken.parquet")


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
        ({"question_id": 1, "messages": [{"role": "assistant", "content": "a"}]}, "line 1: no prompt"),
        ({"question_id": 1, "messages": [{"role": "user", "content": 3}]}, "line 1: no prompt"),
        ({"question_id": 1, "messages": ["a", {"role": "user", "content": "b"}]}, "line 1: its turns"),
        (
            {
                "question_id": 1,
                "turns": ["FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"],
            },
            "line 1: the text of this question lies elsewhere",
        ),
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


def test_prompts_of_a_fixed_length() -> None:
    """Three kinds, four of each, all different and of just so many tokens."""
    own = tokenizer()
    questions = fixed_length_questions("throughput-1k", own)
    assert [one.group for one in questions] == ["low_entropy"] * 4 + ["mixed"] * 4 + ["high_entropy"] * 4
    assert len({one.turns for one in questions}) == len({one.key for one in questions}) == 12
    for one in questions:
        assert abs(len(own.encode(one.turns[0])) - 1024) <= 8  # texts that meet may make other tokens
        assert one.turns[0].endswith("Begin now.")
    assert fixed_length_questions("throughput-1k", own) == questions
    assert LENGTHS["throughput-32k"] == 32768
