"""A chat on a terminal: its model, and everything that is shown for a turn."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.cli import screen
from edgedec.cli import trace as tracing
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import say_overrun
from edgedec.cli.session_file import SessionFile
from edgedec.cli.window import status
from edgedec.cli.window.added_file import AddedFile
from edgedec.cli.window.recall import count_turns, last_turn, turns
from edgedec.cli.window.thought import Thought
from edgedec.cli.window.view import Look, ReplyView, begins_thinking, can_draw
from edgedec.core.errors import EdgeDecError
from edgedec.system.process import unseen

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.cli.tool_calls import ToolCalls
    from edgedec.sampling.named import SamplingParams
    from edgedec.session.chat import Chat
    from edgedec.session.message import Message
    from edgedec.session.reply import Reply

Prepare = Callable[[str], "Callable[[], tuple[Model, Chat]]"]
"""Fetches a model by name, and returns the function that opens it and begins a chat with it."""


class ChatWindow:
    """Answers one message after the other, and shows everything that they lead to."""

    def __init__(
        self, name: str, prepare: Prepare, *, interactive: bool = False, calls: ToolCalls | None = None
    ) -> None:
        self._name = name
        self._prepare = prepare
        self.interactive = interactive
        self._calls = calls
        self.model, self.chat = prepare(name)()
        self.kept: SessionFile | None = None
        self.traced = False
        """Whether replies are shown with the drafters of their tokens."""
        self.look = Look()
        self.thought: Thought | None = None
        """The thinking part of the latest reply."""
        self.draft = ""
        """Text that the editor begins with next."""
        self.files: list[AddedFile] = []
        """Files that go with the next turn."""
        self._chosen: dict[str, float] = {}
        """Sampling parameters that were set here; another model takes them over."""
        self._saved: list[Message] = []
        """The messages that a file has."""
        self._warned = False
        """Whether the user has heard that the conversation is not saved."""
        self._begun = False
        """Whether the prompt of the latest turn ends inside a thinking part."""

    @property
    def kept_in(self) -> Path | None:
        """The file that the chat is kept in."""
        return self.kept.path if self.kept else None

    def close(self) -> None:
        """Close the model."""
        self.model.close()

    def keep(self, path: Path, named: SamplingParams) -> None:
        """Continue the conversation in a file, if there is one, and keep it there; see ``SessionFile``."""
        self.kept = SessionFile(path, self.chat)
        self.kept.restore(named)
        self.model.make_room_for(self.chat.settings.params)

    def saved_at_the_end(self) -> AbstractContextManager[None]:
        """Inside, a chat that is kept is saved once more when it ends."""
        return self.kept.saved_at_the_end() if self.kept else nullcontext()

    def take_draft(self) -> str:
        """Return the text that the editor begins with, once."""
        text, self.draft = self.draft, ""
        return text

    def greet(self) -> None:
        screen.aside(f"{self.model.name}, {self.model.context} tokens of context; /help helps")
        if self._calls:
            self._calls.greet()
        if self.chat.messages and self.kept:
            screen.aside(f"continuing {self.kept.path}: {turns(self.chat)}")
            self.show_last_turn()

    def show_last_turn(self) -> None:
        """Show the end of the conversation to someone who comes back to it."""
        if self.interactive:
            for line in last_turn(self.chat.messages):
                screen.aside(line)

    def note_saved(self) -> None:
        """Take the conversation as it is for kept in a file."""
        self._saved = list(self.chat.messages)

    def warns_of_loss(self) -> bool:
        """Return, once, whether the user is about to leave turns that no file has."""
        lost = self.interactive and not self.kept and count_turns(self.chat) > 0
        warns = lost and not self._warned and self.chat.messages != self._saved
        self._warned |= warns
        return warns

    def answer(self, text: str) -> None:
        """Stream the answer to a message, with the files that go with it, and answers to results of tools."""
        self.show(lambda: self._reply(text))
        if self._calls:
            self._calls.answer(self.chat, lambda: self.show(self.chat.reply))

    def end_turn(self) -> None:
        """Say the news of a turn, and save a chat that is kept in a file."""
        say_overrun(self.model)
        if self.chat.policy and (news := self.chat.policy.news()):
            screen.aside(news)
        if self.kept:
            self.kept.try_to_save()

    def draw_with(self, changes: dict[str, float]) -> None:
        """Draw replies with other sampling parameters from now on. Raises UsageError, MemoryBudgetError."""
        params = replace(self.chat.settings.params, **changes)  # type: ignore[arg-type]
        self.model.make_room_for(params)
        self.chat.adjust(params=params)
        self._chosen |= changes

    def switch(self, name: str) -> None:
        """Go on with another model; the messages stay. If it cannot be opened, this one is opened again."""
        begin = self._prepare(name)
        messages, settings = self.chat.messages, self.chat.settings
        self.model.close()
        del self.model, self.chat  # there may be no memory for two
        gc.collect()
        try:
            self.model, self.chat = begin()
            self._name = name
        except (EdgeDecError, KeyboardInterrupt):
            self.model, self.chat = self._prepare(self._name)()
            self.chat.adjust(params=settings.params)
            raise
        finally:
            self.chat.messages = messages
            self.chat.adjust(max_tokens=settings.max_tokens)
            if self.kept:
                self.kept.follow(self.chat)
        self.draw_with(self._chosen)

    def _reply(self, text: str) -> Reply:
        reply = self.chat.reply("".join(one.block for one in self.files) + text)
        self.files.clear()
        return reply

    def show(self, begin: Callable[[], Reply], *, before: str = "") -> None:
        """Stream the reply that ``begin`` begins, and the line under it. It may continue ``before``."""
        palette = tracing.Palette() if self.traced and tracing.coloured() else None
        with unseen(), interrupts_to(self.chat.interrupt):
            reply = begin()
            if can_draw() and self.look.markdown and not self.traced:
                self._draw(reply, before)
            else:
                screen.stream(reply, lambda piece: tracing.show(piece, reply, palette))
        if self.traced:
            tracing.conclude(reply.trace(), palette)
        status.show(reply, more=self.interactive)

    def _draw(self, reply: Reply, before: str) -> None:
        if not before:
            self._begun = begins_thinking(self.chat.tokenizer, reply.prompt)
        view = ReplyView(self.look, begun=self._begun, before=before)
        try:
            with view:
                for piece in reply:
                    view.push(piece, len(reply.tokens))
        finally:
            self.thought = view.thought
