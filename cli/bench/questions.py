"""Questions that a study asks: their options, and the study over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import PeerOptions, count_option, input_option, stacked
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.bench.harness.questions import Question
    from edgedec.bench.harness.replies import ReplyStudy
    from edgedec.bundle.manifest import Manifest

F = TypeVar("F", bound=Callable[..., Any])

asked_options = stacked(
    input_option("Questions in the format of Spec-Bench (.jsonl with turns), or one prompt per line."),
    count_option("--limit", "Ask the first N questions of each category."),
    count_option("--max-tokens", "Longest reply, in tokens.", 64, least=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions(PeerOptions):
    """Options of a study that asks questions."""

    file: Path | None
    limit: int | None
    max_tokens: int

    def questions(self) -> list[Question]:
        """Read the questions, and choose those to ask. Raises as ``read_questions``, and UsageError."""
        from edgedec.bench.harness.questions import chosen, plain_questions, read_questions
        from edgedec.bench.harness.texts import PROMPTS

        found = read_questions(self.file) if self.file else plain_questions(PROMPTS)
        return chosen(found, self.limit)


def reply_study(
    bundle: Path, manifest: Manifest, questions: Sequence[Question], max_tokens: int
) -> tuple[ReplyStudy, int]:
    """Return the study, and the tokens that the longest conversation can have."""
    from edgedec.bench.harness.replies import ReplyStudy

    study, context = ReplyStudy.of(bundle, manifest, questions, max_tokens)
    inputs.check_context(manifest, context)
    return study, context
