"""Draws a reply on standard output: its thinking part dimmed, its answer as Markdown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text

from edgedec.cli import screen
from edgedec.cli.window.flow import Flow
from edgedec.cli.window.region import Region
from edgedec.cli.window.styles import Styles
from edgedec.cli.window.wrap import wrapped

if TYPE_CHECKING:
    from edgedec.cli.window.thought import Thought

_THINKING_ROWS = 6
"""Rows of a thinking part that will be folded."""
_THINKING_CHARS = 2_000
"""More text than those rows can hold, from its end."""


class ReplyDrawing:
    """A reply as far as it has been drawn. With ``fold`` the thinking part leaves one line behind."""

    def __init__(self, *, fold: bool) -> None:
        console = Console(file=sys.stdout)
        system = console.color_system
        colours = ColorSystem[_SYSTEMS[system]] if system and not console.no_color else None
        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        self._styles = Styles(colours is not None, utf8)
        self._region = Region(_write, lambda: screen.window(sys.stdout), colours)
        self._flow = Flow(self._styles)
        self._fold = fold
        self._thought_chars = 0
        """Characters of the thinking part that have been printed."""
        self._thought_over = False

    def follow(self, answer: str, *, thinking: bool) -> None:
        """Take ``answer`` for drawn already, and the thinking part too unless it goes on."""
        if answer:
            self._flow.push(answer)
            self._flow.skip(self._region.width)
        self._thought_over = not thinking and bool(answer)

    def show(self, thought: Thought | None, answer: str, *, thinking: bool, final: bool) -> None:
        """Draw the reply as it is now. ``answer`` is the text that is new, ``thought`` the whole part."""
        if self._region.resized():
            self._flow.freeze()
        if thought is not None and not self._thought_over:
            self._thought_over = not thinking
            self._region.draw(*self._thought_lines(thought))
        if thinking:
            return
        self._flow.push(answer)
        self._region.draw(*self._flow.take(self._region.width, final=final))
        if final:
            self._region.end()

    def _thought_lines(self, thought: Thought) -> tuple[list[Text], list[Text]]:
        """Return final lines and others, as ``Flow.take`` does."""
        dim, width = self._styles.dim, self._region.width
        if self._fold and self._thought_over:
            return [Text(line, dim) for line in (folded(thought, width), "")], []
        text = Text(screen.harmless(thought.text).strip("\n"), dim)
        if self._fold:
            lines = [line for _, line in wrapped(text[-_THINKING_CHARS:], width)]
            return [], [Text("thinking", self._styles.italic + dim), *lines[-_THINKING_ROWS:]]
        made = wrapped(text[self._thought_chars :] if self._thought_chars < len(text) else Text(), width)
        ready = len(made) if self._thought_over else len(made) - 1
        self._thought_chars += made[ready - 1][0] if ready else 0
        lines = [line for _, line in made]
        return [*lines[:ready], *([Text()] if self._thought_over else [])], lines[ready:]


def folded(thought: Thought, width: int) -> str:
    """Say in one line how long the model thought, and how to read it."""
    line = f"thought for {thought.seconds:.1f} s"
    for part in (f", {thought.tokens} tokens", "; /think shows it"):
        if len(line) + len(part) <= width:
            line += part
    return line


_SYSTEMS = {"standard": "STANDARD", "256": "EIGHT_BIT", "truecolor": "TRUECOLOR", "windows": "WINDOWS"}


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
