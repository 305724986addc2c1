"""``--prompt-keep``: a long prompt made short before the model reads it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from edgedec.cli import options as opt
from edgedec.cli import text_input
from edgedec.cli.command import option
from edgedec.cli.progress import notice
from edgedec.cli.services import services
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.cli.options import SizeOptions

ENCODER = "all-minilm-l6-v2"
"""The encoder that scores, where none is named."""
_COUNTED_CHARS = 32_000
"""Characters that are counted as tokens at a time, so that a long prompt takes little memory."""
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%")


class Keep(NamedTuple):
    """The share of a long prompt that is read, and the encoder that chooses it."""

    share: float
    encoder: str = ENCODER


class KeepType(click.ParamType[Keep]):
    """A share in percent, and perhaps an encoder behind a colon: ``25%``, ``25%:embeddinggemma-300m``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Keep:
        if isinstance(value, Keep):
            return value
        share, colon, encoder = str(value).partition(":")
        found = _PERCENT.fullmatch(share)
        if found is None or (colon and not encoder):
            meant = f"; did you mean {share}%?" if share.isascii() and share.isdecimal() else ""
            self.fail(f"{value!r:.40} is no share of a prompt, such as 25%{meant}", param, ctx)
        if not 0 < (percent := float(found[1])) <= 100:
            self.fail(f"a prompt cannot keep {share} of its text; use 1% to 100%", param, ctx)
        return Keep(percent / 100, encoder or ENCODER)


prompt_keep_option = option(
    "--prompt-keep", type=KeepType(), metavar="SHARE[:ENCODER]", heading=opt.COST, rare=True,
    help="Lossy: read only this share of a long prompt, such as 25%: the lines and sentences that are "
    f"nearest to its question by the vectors of an encoder (default: {ENCODER}).",
)  # fmt: skip


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
