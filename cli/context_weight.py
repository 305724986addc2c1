"""``--context-weight``: a prompt as a question and the text that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgedec.cli import text_input
from edgedec.cli.progress import notice
from edgedec.core.errors import UsageError
from edgedec.session.message import AboutText

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.session.reply import Reply

_BLANK = "\n\n"


def read_about(prompt: str | None, *, after_input: bool, whole: str | None = None) -> AboutText:
    """Read a prompt before a model is opened; its question is ``prompt`` behind a file or the last paragraph.

    ``whole``: the prompt where it was read already. Raises the errors of ``read_prompt``, and UsageError
    where nothing comes before the question.
    """
    if whole is None:
        whole = text_input.read_prompt(prompt, text_input.LongText(), after_input=after_input)
    question = prompt if after_input and prompt and whole.endswith(prompt) else ""
    context = whole[: len(whole) - len(question)]
    if not question or not context.strip():
        context, _, question = whole.rstrip().rpartition(_BLANK)
    if not context.strip():
        raise UsageError(
            "--context-weight needs a text that the question is about",
            hint="give it at standard input, or before the question and a blank line",
        )
    return AboutText(question, context)


def say_weight(model: Model) -> None:
    """Say that the text has a weight."""
    if (weight := model.config.context_weight) is not None:
        notice(f"note: replies follow what the text changes, weight {weight:g}; lossy")


def weight_fields(model: Model, reply: Reply) -> Mapping[str, object]:
    """Return the weight of the text as fields of a report; none where it has none."""
    weight, without = model.config.context_weight, len(reply.start.without)
    return {} if weight is None else {"context_weight": weight, "prompt_without_tokens": without}
