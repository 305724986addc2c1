"""The options of ``generate --samples``."""

from __future__ import annotations

import re

import click

from edgedec.cli import options as opt
from edgedec.cli.command import declared, option
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

BEST, FIRST, VOTE = "best", "first", "vote"


@dataclass(frozen=True, slots=True)
class Choice:
    """The way to choose a sample; ``pattern``: what an answer looks like in a vote, None for a number."""

    kind: str
    pattern: re.Pattern[str] | None = None


def read_choice(ctx: click.Context, param: click.Parameter, text: str | None) -> Choice | None:
    """Return the choice that an option names. Raises UsageError."""
    if text is None:
        return None
    kind, equals, pattern = text.partition("=")
    if kind not in (BEST, FIRST, VOTE) or (equals and (kind != VOTE or not pattern)):
        raise UsageError(f"--choose cannot be {text[:40]!r}", hint="it is best, first, vote or vote=REGEX")
    try:
        return Choice(kind, re.compile(pattern) if pattern else None)
    except re.error as error:
        raise UsageError(f"{pattern[:40]!r} is no regular expression: {error}", hint="quote it") from error


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """How many replies to make, and which one to show."""

    # fmt: off
    samples: int | None = declared(option(
        "--samples", type=click.IntRange(min=1), metavar="N", heading=opt.REPLY, rare=True,
        help="Make N replies, with seeds that count up from --seed, over one computed prompt.",
    ))
    choose: Choice | None = declared(option(
        "--choose", callback=read_choice, metavar="HOW", heading=opt.REPLY, rare=True,
        help="Of --samples show one: best (mean log-probability), first (to end), vote (most frequent last "
        "number) or vote=REGEX.",
    ))
    # fmt: on


def check(asked: SampleOptions, *, alone: bool) -> None:
    """Raise UsageError for options that contradict each other; ``alone``: nothing else does."""
    if asked.samples is None and asked.choose is not None:
        raise UsageError("--choose is for --samples", hint="say how many samples to choose from")
    if asked.samples is not None and not alone:
        raise UsageError("--samples goes without --input, --trace and --when-full", hint="leave those out")
