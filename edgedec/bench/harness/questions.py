"""Questions with categories, in the format of Spec-Bench (Xia et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgedec.bench.harness.texts import ReadLine, read_lines
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.tokenizer import valid_text

MT_BENCH = "mt_bench"
_OF_MT_BENCH = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
NO_CATEGORY = "prompts"


@dataclass(frozen=True, slots=True)
class Question:
    """One conversation: the texts of the user, turn by turn."""

    key: str
    category: str
    turns: tuple[str, ...]

    @property
    def group(self) -> str:
        """The group of Spec-Bench's own tables that the category belongs to."""
        return MT_BENCH if self.category in _OF_MT_BENCH else self.category


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a ``.jsonl`` file, or the prompts of any other file without category.

    Raises NotFoundError, BadFileError.
    """
    lines = read_lines(path)
    if path.suffix != ".jsonl":
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
    turns = fields.get("turns", [line.text])
    category = fields.get("category", NO_CATEGORY)
    if not isinstance(turns, list) or not all(isinstance(turn, str) and turn for turn in turns):
        raise BadFileError(f"{where}: its turns are not texts")
    if not isinstance(category, str) or not category.isprintable():
        raise BadFileError(f"{where}: its category is no name")
    key = fields.get("question_id", number)
    if not isinstance(key, str | int) or not str(key).isprintable():
        raise BadFileError(f"{where}: its question_id is neither number nor name")
    return Question(str(key), category, tuple(valid_text(turn) for turn in turns))


def chosen(questions: Sequence[Question], per_category: int | None = None) -> list[Question]:
    """Choose the first ``per_category`` questions of each category; all without a number."""
    taken: dict[str, int] = {}
    found = []
    for question in questions:
        taken[question.category] = taken.get(question.category, 0) + 1
        if per_category is None or taken[question.category] <= per_category:
            found.append(question)
    return found
