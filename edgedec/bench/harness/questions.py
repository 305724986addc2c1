"""Questions with categories, in the formats of Spec-Bench (Xia et al. 2024) and SPEED-Bench (NVIDIA, 2026).

SPEED-Bench comes as Parquet with ``turns``, or as JSON lines with ``messages``. Its licence does not let its
prompts be shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgedec.bench.harness.texts import PARQUET, ReadLine, read_lines
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.tokenizer import valid_text

MT_BENCH = "mt_bench"
_OF_MT_BENCH = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
NO_CATEGORY = "prompts"
_NOT_FETCHED = "FULL BENCHMARK DATA SHOULD BE FETCHED"
"""Beginning of a text that SPEED-Bench's makers may not hand out."""


@dataclass(frozen=True, slots=True)
class Question:
    """One conversation: the texts of the user, turn by turn."""

    key: str
    category: str
    turns: tuple[str, ...]
    speed: bool = False
    """Whether it is of SPEED-Bench, whose categories are groups of their own."""

    @property
    def group(self) -> str:
        """The group of Spec-Bench's own tables that the category belongs to."""
        return MT_BENCH if self.category in _OF_MT_BENCH and not self.speed else self.category


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a ``.jsonl`` or ``.parquet`` file, or the prompts of any other.

    Raises NotFoundError, BadFileError; UnsupportedError for Parquet without a library that reads it.
    """
    lines = read_lines(path)
    if path.suffix not in (".jsonl", PARQUET):
        return plain_questions([one.text for one in lines])
    questions = [_question(one, number) for number, one in enumerate(lines, 1)]
    if len({question.key for question in questions}) < len(questions):
        raise BadFileError(f"{path} has a question_id twice")
    return questions


def plain_questions(texts: Sequence[str]) -> list[Question]:
    """Make questions of prompts: no category, one turn each."""
    return [Question(str(number), NO_CATEGORY, (text,)) for number, text in enumerate(texts, 1)]


def _question(line: ReadLine, number: int) -> Question:
    fields, where = line.value if isinstance(line.value, dict) else {}, line.where
    turns: Any = fields.get("turns", [line.text])
    if "messages" in fields:
        turns = _of_user(fields["messages"])
    category = fields.get("category", NO_CATEGORY)
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise BadFileError(f"{where}: its turns are not texts")
    if any(turn.startswith(_NOT_FETCHED) for turn in turns):
        raise BadFileError(
            f"{where}: the text of this question lies elsewhere",
            hint="fetch all texts first, with the prepare_data.py of SPEED-Bench's makers",
        )
    if not isinstance(category, str) or not category.isprintable():
        raise BadFileError(f"{where}: its category is no name")
    key = fields.get("question_id", number)
    if not isinstance(key, str | int) or not str(key).isprintable():
        raise BadFileError(f"{where}: its question_id is neither number nor name")
    return Question(str(key), category, tuple(valid_text(turn) for turn in turns), "sub_category" in fields)


def _of_user(messages: Any) -> list[Any]:
    """Return the texts of the user; a system message stands before the first of them."""
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        return []
    turns = [one.get("content") for one in messages if one.get("role") == "user"]
    system = [one.get("content") for one in messages if one.get("role") == "system"]
    if turns and all(isinstance(one, str) for one in [*system, turns[0]]):
        turns[0] = "\n\n".join([*system, turns[0]])
    return turns


def chosen(questions: Sequence[Question], per_category: int | None = None) -> list[Question]:
    """Choose the first ``per_category`` questions of each category; all without a number."""
    taken: dict[str, int] = {}
    found = []
    for question in questions:
        taken[question.category] = taken.get(question.category, 0) + 1
        if per_category is None or taken[question.category] <= per_category:
            found.append(question)
    return found
