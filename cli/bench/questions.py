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
    input_option(
        "Questions in the format of Spec-Bench or SPEED-Bench (.jsonl, .parquet), or one prompt per line. "
        "throughput-1k, -2k, -8k, -16k or -32k: prompts of so many tokens, made of EdgeDec's own texts."
    ),
    count_option("--limit", "Ask the first N questions of each category."),
    count_option("--max-tokens", "Longest reply, in tokens.", 64, least=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions(PeerOptions):
    """Options of a study that asks questions."""

    file: Path | None
    limit: int | None
    max_tokens: int

    @property
    def split(self) -> str | None:
        """The name of prompts of a fixed length, where ``file`` is one and no file."""
        from edgedec.bench.harness.fixed_lengths import LENGTHS

        named = self.file is not None and str(self.file) in LENGTHS and not self.file.exists()
        return str(self.file) if named else None

    def questions(self, bundle: Path, manifest: Manifest) -> list[Question]:
        """Read the questions, and choose those to ask of a model. Raises as ``read_questions`` does."""
        from edgedec.bench.harness.fixed_lengths import fixed_length_questions
        from edgedec.bench.harness.questions import chosen, plain_questions, read_questions
        from edgedec.bench.harness.texts import PROMPTS
        from edgedec.text.tokenizer import Tokenizer

        if self.split:
            found = fixed_length_questions(self.split, Tokenizer.load(bundle, manifest.tokenizer))
        else:
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
