"""Show progress on standard error: bars on a terminal, some lines elsewhere, nothing in the first second."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import screen
from edgedec.core.units import size
from edgedec.metrics.stats import Clock

if TYPE_CHECKING:
    from typing import Self

QUIET_S = 1.0
"""Shorter work shows no progress."""
LINE_EVERY_S = 5.0
"""Least time between two plain lines about a stage, except for its last."""
_PERCENTAGE = re.compile(r"(.+): \d+%")
_LINE_UP = "\x1b[A\x1b[2K"
"""Makes a terminal go to the line above, and empty it."""
_LABELS = {
    "download": "downloading",
    "join": "unpacking",
    "verify": "checking",
    "source": "reading",
    "calibration": "calibrating",
    "formats": "choosing formats",
    "weights": "packing weights",
    "compile": "compiling for the HTP",
    "optimum": "exporting with optimum",
    "copy": "copying",
    "send": "sending",
    "speed": "timing passes",
    "agreement": "comparing with texts of the model",
}
_COUNTED = ("agreement", "formats")
"""Stages that count steps, not bytes."""


def reporter() -> Bars | Lines:
    """Return the reporter that suits standard error."""
    return Bars() if sys.stderr.isatty() else Lines()


def notice(line: str) -> None:
    """Show a line to the user on standard error: a licence, a fall-back.

    A terminal gets it in whole words, and a percentage takes the place of the one before.
    """
    if sys.stderr.isatty():
        line = _shown.fitted(line)
    click.echo(line, err=True)


class _Shown:
    """The last line that a notice showed, as far as the next one depends on it."""

    def __init__(self) -> None:
        self._label = ""

    def fitted(self, line: str) -> str:
        """Return ``line`` wrapped at spaces, after what removes the percentage that it replaces."""
        percentage = _PERCENTAGE.fullmatch(line)
        before, self._label = self._label, percentage[1] if percentage else ""
        if before and before == self._label and screen.colours() is None:
            return f"{_LINE_UP}{line}"
        return screen.fitted(line)


_shown = _Shown()


class Lines:
    """Progress as plain lines, for logs and pipes."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._stage = ""
        self._next = 0.0
        self._spoke = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = self._clock()
        if stage != self._stage:
            self._stage, self._next, self._spoke = stage, now + QUIET_S, False
        finished = self._spoke and 0 < total <= done
        if now < self._next and not finished:
            return
        self._next, self._spoke = now + LINE_EVERY_S, not finished
        amount = f"{done} of {total}" if stage in _COUNTED else _amount(done, total)
        click.echo(f"{_label(stage)}: {amount}", err=True)


class Bars:
    """One bar per stage, drawn by rich, which is imported only when the first second has passed."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._begun: float | None = None
        self._stages: dict[str, Any] = {}
        self._drawn: Any = None
        self._counts = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = self._clock()
        self._begun = now if self._begun is None else self._begun
        if self._drawn is None and now - self._begun < QUIET_S:
            return
        counts = stage in _COUNTED
        if self._drawn is None or counts != self._counts:
            if self._drawn is not None:
                self._drawn.stop()
            self._counts, self._stages = counts, {}
            self._drawn = _rich_progress(counts)
            self._drawn.start()
        if stage not in self._stages:
            self._stages[stage] = self._drawn.add_task(_label(stage), total=total or None)
        self._drawn.update(self._stages[stage], completed=done, total=total or None)


def _label(stage: str) -> str:
    return _LABELS.get(stage, stage)


def _amount(done: int, total: int) -> str:
    return f"{size(done)} of {size(total)} ({100 * done // total}%)" if total else size(done)


def passing_bars(*columns: Any) -> Any:
    """Return bars of rich that leave nothing behind, and are seldom drawn: that takes time from the work."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2)


def _rich_progress(counts: bool) -> Any:
    from rich import progress
    from rich.console import Console

    amounts = [progress.DownloadColumn(), progress.TransferSpeedColumn()]
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        *([progress.MofNCompleteColumn()] if counts else amounts),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
