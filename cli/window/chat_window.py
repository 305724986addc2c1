"""One turn of a chat: a command or a question, and everything that is shown for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen, slash
from edgedec.cli import trace as tracing
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import say_overrun
from edgedec.cli.window import keys, status
from edgedec.cli.window.view import Look, ReplyView, Thought, can_draw
from edgedec.text.thinking import BEGIN

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.cli.session_file import SessionFile
    from edgedec.session.chat import Chat
    from edgedec.session.reply import Reply

_TAIL_TOKENS = 8
"""More than ``<think>`` and the line end behind it can be."""


class ChatWindow:
    """Takes one line, and shows everything that it leads to."""

    def __init__(self, model: Model, chat: Chat, kept: SessionFile | None = None) -> None:
        self.model = model
        self.chat = chat
        self.kept = kept
        self.traced = False
        """Whether replies are shown with the drafters of their tokens."""
        self.look = Look()
        self.thought: Thought | None = None
        """The thinking part of the latest reply."""

    def greet(self) -> None:
        screen.dim(f"{self.model.name}, {self.model.context} tokens of context; /help helps")
        if self.chat.messages and self.kept:
            screen.dim(f"continuing {self.kept.path}: {slash.turns(self.chat)}")

    def turn(self, text: str) -> None:
        """Carry out a command, or stream the answer. Raises EdgeDecError, and slash.Quit to leave."""
        if text.startswith("/"):
            kept = self.kept.path if self.kept else None
            slash.run(text, slash.Context(self, screen.dim, kept))
        else:
            self.show(lambda: self.chat.reply(text))
        say_overrun(self.model)
        if self.chat.policy and (news := self.chat.policy.news()):
            screen.dim(news)
        if self.kept:
            self.kept.try_to_save()

    def show(self, begin: Callable[[], Reply]) -> None:
        """Stream the reply that ``begin`` begins, and the line under it."""
        with interrupts_to(self.chat):
            reply = begin()
            if can_draw() and self.look.markdown and not self.traced:
                self._draw(reply)
            else:
                self._write(reply)
        if self.traced:
            tracing.conclude(reply.trace(), self._palette())
        status.show(reply)

    def _draw(self, reply: Reply) -> None:
        opening = self.chat.tokenizer.decode(reply.prompt[-_TAIL_TOKENS:])
        view = ReplyView(self.look, begun=opening.rstrip().endswith(BEGIN))
        try:
            with keys.unseen(), view:
                for piece in reply:
                    view.push(piece, len(reply.tokens))
        finally:
            self.thought = view.thought

    def _write(self, reply: Reply) -> None:
        palette, ends_line = self._palette(), False
        try:
            for piece in reply:
                tracing.show(piece, reply, palette)
                ends_line = piece.endswith("\n")
        finally:
            if not ends_line:
                click.echo()

    def _palette(self) -> tracing.Palette | None:
        return tracing.Palette() if self.traced and tracing.coloured() else None
