"""A reply on a terminal, drawn a few times a second by a thread of its own, as its text comes."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from edgedec.cli.window.thought import Thought
from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.stats import Clock
from edgedec.system.process import obeys_sequences
from edgedec.text.thinking import BEGIN, ThinkingSplitter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from edgedec.cli.window.drawing import ReplyDrawing
    from edgedec.text.tokenizer import Tokenizer

_TAIL_TOKENS = 8
"""More than ``<think>`` and the line end behind it can be."""
_LEAST_WAIT_S = 1 / 18
"""Least time between two drawings."""
_MOST_SHARE = 0.08
"""Part of the time that drawing may take: a block that takes longer to draw is drawn less often."""


@dataclass
class Look:
    """How replies are shown on a terminal."""

    markdown: bool = True
    fold: bool = True
    """Whether the thinking part of a reply becomes one line when it ends."""


def begins_thinking(tokenizer: Tokenizer, prompt: Sequence[int]) -> bool:
    """Return whether a prompt ends inside a thinking part, with which the reply goes on."""
    return tokenizer.decode(prompt[-_TAIL_TOKENS:]).rstrip().endswith(BEGIN)


def can_draw() -> bool:
    """Return whether standard output is a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and obeys_sequences()


class ReplyView:
    """Shows the pieces of one reply. Use it in a ``with`` block, which ends with all of it on the screen.

    ``begun`` says that the reply begins inside its thinking part. ``before`` is the part of the reply that is
    on the screen already. ``thought`` is the thinking part, None without one.
    """

    def __init__(
        self, look: Look, *, begun: bool = False, before: str = "", clock: Clock = time.monotonic
    ) -> None:
        self.thought: Thought | None = None
        self._look = look
        self._splitter = ThinkingSplitter(begun=begun)
        self._clock = clock
        self._begun_s = clock()
        self._lock = threading.Lock()
        self._news, self._ended = threading.Event(), threading.Event()
        self._answer = ""
        """Text that has not been drawn yet."""
        self._before = ""
        """Text that has been drawn by another view."""
        self._failure: Exception | None = None
        if before:
            self._add(*self._splitter.push(before), 0)
            self._before, self._answer = self._answer, ""
        self._thread = threading.Thread(target=self._run, name="drawing", daemon=True)

    def push(self, piece: str, tokens: int) -> None:
        """Add a piece of the reply, which has ``tokens`` tokens by now. Raises the errors of drawing."""
        if self._failure:
            raise self._failure
        self._add(*self._splitter.push(piece), tokens)
        self._news.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._add(*self._splitter.flush(), self.thought.tokens if self.thought else 0)
        self._ended.set()
        self._news.set()
        self._thread.join()
        if self._failure and error is None:
            raise self._failure

    def _add(self, thought: str, answer: str, tokens: int) -> None:
        with self._lock:
            self._answer += answer
            if thought or self._splitter.thinking:
                known = self.thought or Thought()
                self.thought = Thought(known.text + thought, self._clock() - self._begun_s, tokens)

    def _run(self) -> None:
        from edgedec.cli.window.drawing import ReplyDrawing

        try:
            drawing = ReplyDrawing(fold=self._look.fold)
            drawing.follow(self._before, thinking=self._splitter.thinking)
            while not self._ended.is_set():
                self._news.wait()
                self._news.clear()
                begun_s = self._clock()
                self._draw(drawing)
                self._ended.wait(max(_LEAST_WAIT_S, (self._clock() - begun_s) / _MOST_SHARE))
            self._draw(drawing, final=True)
        except Exception as error:  # the main thread raises it
            self._failure = error

    def _draw(self, drawing: ReplyDrawing, *, final: bool = False) -> None:
        with self._lock:
            answer, self._answer = self._answer, ""
            thought = self.thought
            thinking = self._splitter.thinking and not final
        drawing.show(thought, answer, thinking=thinking, final=final)
