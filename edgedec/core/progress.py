"""Declare how long work reports its progress, and how a library speaks to the user."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with a stage ("download", "verify", "weights", ...), bytes done, and bytes in total (0: unknown)."""

Steps = Callable[[int, int], None]
"""Called with the steps done and the steps in total, of work that has one stage."""

Notice = Callable[[str], None]
"""Called with one line for the user: a licence, waiting for another process, a fall-back."""


def silent(stage: str, done: int, total: int) -> None:
    """Show nothing; a Progress."""


def counted(progress: Progress, stage: str, total: int) -> Callable[[int], None]:
    """Return a function that is told of bytes piece by piece, and reports their sum."""
    done = 0

    def add(count: int) -> None:
        nonlocal done
        done += count
        progress(stage, done, total)

    return add


def ignore(line: str) -> None:
    """Drop a line; a Notice."""
