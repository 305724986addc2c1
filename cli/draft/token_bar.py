"""Progress of long work that makes tokens: a bar with tokens per second, or a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from edgedec.cli.progress import notice, passing_bars
from edgedec.metrics.stats import Clock

LINE_EVERY_S = 30.0
"""Least time between two plain lines."""


@contextmanager
def token_bar(prompts: int, tokens: int | None) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows prompts done and tokens made; ``tokens`` is the goal, if there is one."""
    if not sys.stderr.isatty():
        yield TokenLines(prompts, tokens)
        return
    from rich import progress

    label, words = (progress.TextColumn(text) for text in ("answering", "{task.description}"))
    times = progress.TimeElapsedColumn(), progress.TimeRemainingColumn(elapsed_when_finished=True)
    bar = passing_bars(label, progress.BarColumn(), words, *times)
    with bar:
        task: Any = bar.add_task("", total=tokens or prompts or None)
        clock = time.monotonic
        began = clock()

        def show(done: int, made: int) -> None:
            words = f"{done} of {prompts} prompts, {made / max(clock() - began, 1e-9):.0f} tok/s"
            bar.update(task, description=words, completed=made if tokens else done)

        yield show


class TokenLines:
    """Progress as plain lines, for logs and pipes."""

    def __init__(self, prompts: int, tokens: int | None, clock: Clock = time.monotonic) -> None:
        self._prompts, self._tokens = prompts, tokens
        self._clock = clock
        self._began = clock()
        self._next = self._began + LINE_EVERY_S

    def __call__(self, done: int, made: int) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + LINE_EVERY_S
        spent = now - self._began
        share = made / self._tokens if self._tokens else done / max(self._prompts, 1)
        left = f"about {spent / share - spent:.0f} s left" if share > 0 else "time left unknown"
        rate = f"{made / spent:.0f} tok/s"
        notice(f"answering: {done} of {self._prompts} prompts, {made} tokens, {rate}, {left}")
