"""``--trace``: replies in the colours of their drafters or writers, or marked where there are no colours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.session.trace import Traced, summary

if TYPE_CHECKING:
    from edgedec.session.reply import Reply

# Of 256: blue, orange, pink, green and yellow that differ in lightness too (after Okabe and Ito).
_COLOURS = (39, 214, 176, 36, 228)


class Palette:
    """A colour for each drafter or model, in the order in which they appear."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self.models = False
        """Whether colours stand for models that take turns."""

    def paint(self, text: str, source: str | None) -> str:
        """``text`` in the colour of ``source``; the target's own tokens stay as they are."""
        if source is None or not text:
            return text
        colour = self._known.setdefault(source, _COLOURS[len(self._known) % len(_COLOURS)])
        return click.style(text, fg=colour)

    def legend(self) -> str:
        itself = [] if self.models else ["the target itself"]
        return "  ".join([*itself, *(self.paint(name, name) for name in self._known)])


def coloured() -> bool:
    """Whether the reply itself can show it: a terminal that may have colours."""
    return sys.stdout.isatty() and screen.colours() is not False


def show(piece: str, reply: Reply | None, palette: Palette | None) -> None:
    """A piece of a reply as it comes, in the colour of the token that completed it, if there are colours.

    The colour is that of the model that wrote it, where two take turns, or else of its drafter.
    """
    if palette is None:
        screen.show(piece)
        return
    source = reply.sources[-1] if reply and reply.sources else None
    if reply and reply.writers and reply.writers[-1]:
        source, palette.models = reply.writers[-1], True
    screen.show_painted(piece, lambda text: palette.paint(text, source))


def conclude(trace: Sequence[Traced], palette: Palette | None) -> None:
    """Lines after the reply, on standard error: legend or marked text, then the summary.

    In the marked text, drafted tokens stand in brackets behind the drafter's name, ``[lookup: is blue]``.
    """
    if palette is not None:
        click.echo(palette.legend(), err=True, color=True)
    else:
        click.echo(f"trace: {marked(trace)}", err=True)
    screen.aside(f"trace: {summary(trace)}")


def marked(trace: Sequence[Traced]) -> str:
    """The reply on one line, ``|`` between rounds, drafted tokens in brackets.

    Where two models take turns, the name of each stands in braces before its stretches.
    """
    out: list[str] = []
    latest: Traced | None = None
    for one in trace:
        if latest and latest.source and (latest.source, latest.round) != (one.source, one.round):
            out.append("]")
        if latest and latest.round != one.round:
            out.append("|")
        if one.model and (latest is None or latest.model != one.model):
            out.append(f"{{{one.model}}}")
        if one.source and (latest is None or (latest.source, latest.round) != (one.source, one.round)):
            out.append(f"[{one.source}:")
        out.append(screen.printable(one.text))
        latest = one
    return "".join(out) + ("]" if latest and latest.source else "")
