"""``--prompt-keep``: a long prompt made short before the model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from edgedec.cli import text_input
from edgedec.cli.progress import notice
from edgedec.cli.services import services
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.cli.options import Keep, SizeOptions

_COUNTED_CHARS = 32_000
"""Characters that are counted as tokens at a time, so that a long prompt takes little memory."""


@dataclass(frozen=True, slots=True)
class KeptPrompt:
    """A prompt and the part of it that is read."""

    given: str
    text: str

    def tokens(self, model: Model) -> dict[str, int]:
        """Count the tokens of both, as fields of a report; none where nothing was left out. Say so once."""
        if self.text == self.given:
            return {}
        given, kept = _count(model, self.given), _count(model, self.text)
        notice(f"note: {kept} of the prompt's {given} tokens are read, the nearest to its question; lossy")
        return {"prompt_given_tokens": given, "prompt_kept_tokens": kept}


def kept_prompt(
    ctx: click.Context, wanted: Keep, asked: tuple[str | None, bool], size: SizeOptions
) -> KeptPrompt:
    """Read a prompt, and shorten it before the model takes its memory. A short one opens no encoder.

    ``asked``: the prompt, and whether a file at standard input comes first; then the prompt is its question.
    Raises the errors of ``read_prompt`` and of an encoder that cannot be had.
    """
    from edgedec.text.kept_parts import LEAST_CHARS, shortened

    prompt, after_input = asked
    given = text_input.read_prompt(prompt, text_input.LongText(), after_input=after_input)
    if len(given) < LEAST_CHARS or wanted.share >= 1:
        return KeptPrompt(given, given)
    own = services(ctx)
    encoder = own.encoder(wanted.encoder, own.store(), threads=size.threads, memory=size.memory)

    def rank(query: str, parts: Sequence[str]) -> Sequence[float]:
        return [float(score) for score in encoder.rank(query, parts).vectors[:, 0]]

    question = prompt if after_input and given != prompt else None
    return KeptPrompt(given, shortened(given, wanted.share, rank, question))


def _count(model: Model, text: str) -> int:
    pieces = (text[at : at + _COUNTED_CHARS] for at in range(0, len(text), _COUNTED_CHARS))
    return sum(model.count_tokens(piece) for piece in pieces)
