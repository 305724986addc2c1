"""One turn of a chat: a command or a question, and everything that is shown for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen, slash
from edgedec.cli import trace as tracing
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import say_overrun

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.cli.session_file import SessionFile
    from edgedec.session.chat import Chat


class ChatWindow:
    """Takes one line, and shows everything that it leads to."""

    def __init__(self, model: Model, chat: Chat, kept: SessionFile | None = None) -> None:
        self.chat = chat
        self.kept = kept
        self.traced = False
        """Whether replies are shown with the drafters of their tokens."""
        self.model = model

    def greet(self) -> None:
        model = self.model
        screen.dim(
            f"{model.name}, {model.context} tokens of context, {model.loaded.isa} kernels; /help helps"
        )
        if self.chat.messages and self.kept:
            screen.dim(f"continuing {self.kept.path}: {slash.turns(self.chat)}")

    def turn(self, text: str) -> None:
        """Carry out a command, or stream the answer. Raises EdgeDecError, and slash.Quit to leave."""
        if text.startswith("/"):
            kept = self.kept.path if self.kept else None
            slash.run(text, slash.Context(self, screen.dim, kept))
        else:
            self._answer(text)
        say_overrun(self.model)
        if self.chat.policy and (news := self.chat.policy.news()):
            screen.dim(news)
        if self.kept:
            self.kept.try_to_save()

    def _answer(self, text: str) -> None:
        before, ends_line = self.chat.last, False
        palette = tracing.Palette() if self.traced and tracing.coloured() else None
        try:
            with interrupts_to(self.chat):
                reply = self.chat.reply(text)
                for piece in reply:
                    tracing.show(piece, reply, palette)
                    ends_line = piece.endswith("\n")
        finally:
            if self.chat.last is not before and not ends_line:
                click.echo()
        if self.traced and self.chat.last is not None:
            tracing.conclude(self.chat.last.trace(), palette)
        self._summary()

    def _summary(self) -> None:
        reply = self.chat.last
        if reply is None or not sys.stderr.isatty():
            return
        missing = self.chat.policy.missing if self.chat.policy else 0
        line = reply.stats.summary(None if missing else self.model.context)
        notes = {"interrupted": "stopped", "length": "--max-tokens", "context": "the context is full"}
        note = notes.get(reply.finish_reason or "")
        if missing:
            line += f" | lossy: {missing} tokens have left the cache"
        if (drafts := self.chat.speculation) and (per_pass := drafts.tally.block_efficiency):
            line += f" | {per_pass:.2f} tokens a pass"
        screen.dim(f"[{line} | {note}]" if note else f"[{line}]")
