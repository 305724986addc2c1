"""Right answers to GSM8K questions with settings that change replies, beside the exact setting.

Sources:

- Questions: Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems". Each line is a JSON object
of
  ``question`` and ``answer``; the last line of the answer is ``#### N``.
- Reading of replies: lm-evaluation-harness, task ``gsm8k``, filter ``flexible-extract``. The last number
counts,
  without commas, dollar signs and a full stop at its end, compared as text.
- Comparison of sides: McNemar's exact test (McNemar 1947), a sign test over the questions that one side alone
  got right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from pathlib import Path

from edgedec.bench.harness.journal import Journal, SideAnswer
from edgedec.bench.harness.pairing import by_field, rounded
from edgedec.bench.harness.texts import read_lines
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.last_number import last_number

_MARK = "####"


@dataclass(frozen=True, slots=True)
class MathProblem:
    """A question and the number that answers it."""

    key: str
    text: str
    answer: str


def read_problems(path: Path) -> list[MathProblem]:
    """Read a file in the format of GSM8K. Raises NotFoundError, BadFileError."""
    lines = read_lines(path)
    if path.suffix != ".jsonl":
        raise BadFileError(
            f"{path} is not in the format of GSM8K", hint="a .jsonl file of question and answer"
        )
    return [
        MathProblem(str(number), one.text, _expected(one.value, one.where))
        for number, one in enumerate(lines, 1)
    ]


def _expected(value: object, where: str) -> str:
    answer = value.get("answer") if isinstance(value, dict) else None
    if not isinstance(answer, str) or (found := last_number(answer.partition(_MARK)[2])) is None:
        raise BadFileError(f"{where}: no answer that ends in `{_MARK} NUMBER`")
    return found


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """Counts of questions that both sides got right, the base alone, the other alone, and neither."""

    both_right: int
    only_base_right: int
    only_this_right: int
    neither_right: int

    @classmethod
    def of(cls, base: Sequence[bool], side: Sequence[bool]) -> PairedCounts:
        pairs = list(zip(base, side, strict=True))
        kinds = ((True, True), (True, False), (False, True), (False, False))
        return cls(*(pairs.count(kind) for kind in kinds))

    @property
    def p_value(self) -> float:
        """Probability of a split at least as uneven if neither side were better; two-sided, exact."""
        total = self.only_base_right + self.only_this_right
        least = min(self.only_base_right, self.only_this_right)
        tail = sum(comb(total, count) for count in range(least + 1))
        return min(2 * tail / (1 << total), 1.0)


@dataclass(frozen=True, slots=True)
class SideQuality:
    """One side, and its comparison with the base, over the questions that all sides answered.

    ``identical`` counts replies with the base's tokens; ``cut`` replies without an end token.
    """

    right: list[bool]
    paired: PairedCounts
    identical: int
    cut: int

    def as_json(self) -> dict[str, object]:
        count = len(self.right)
        return {
            "right": sum(self.right),
            "accuracy": rounded(sum(self.right) / count) if count else None,
            **by_field(self.paired),
            "mcnemar_p": rounded(self.paired.p_value),
            "identical_replies": self.identical,
            "cut_replies": self.cut,
        }


def answered(
    problems: Sequence[MathProblem], journal: Journal[SideAnswer], sides: Sequence[str]
) -> list[MathProblem]:
    """Return the problems that all ``sides`` answered."""
    return [one for one in problems if all((one.key, 0, side) in journal.answers for side in sides)]


def compared(
    problems: Sequence[MathProblem],
    journal: Journal[SideAnswer],
    sides: Sequence[str],
    *,
    decode: Callable[[Sequence[int]], str],
    ends: Sequence[int],
) -> tuple[int, dict[str, SideQuality]]:
    """Compare ``sides`` with the first one on the questions that all answered; return their count too.

    ``ends`` are the tokens that end a reply.
    """
    asked = answered(problems, journal, sides)
    answers = {side: [journal.answers[one.key, 0, side] for one in asked] for side in sides}
    right = {
        side: [_is_right(one, answer, decode, ends) for one, answer in zip(asked, replies, strict=True)]
        for side, replies in answers.items()
    }
    base = sides[0]
    return len(asked), {
        side: SideQuality(
            right[side],
            PairedCounts.of(right[base], right[side]),
            sum(one.tokens == other.tokens for one, other in zip(answers[base], answers[side], strict=True)),
            sum(not answer.tokens or answer.tokens[-1] not in ends for answer in answers[side]),
        )
        for side in sides
    }


def _is_right(
    problem: MathProblem, answer: SideAnswer, decode: Callable[[Sequence[int]], str], ends: Sequence[int]
) -> bool:
    text = decode([token for token in answer.tokens if token not in ends])
    return last_number(text) == problem.answer
