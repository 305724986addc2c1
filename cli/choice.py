"""The ways to choose one of several replies to a prompt: ``edgedec batch --choose``."""

from __future__ import annotations

import re

import click

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
