"""The things that commands inside a chat are given, and the form that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.cli.window.chat_window import ChatWindow
    from edgedec.session.chat import Chat

FILE = "FILE"
"""The argument of commands that take the name of a file."""


class Quit(Exception):  # noqa: N818 - it is no error
    """The user asked to leave."""


@dataclass(frozen=True)
class Context:
    """The chat that a command acts on. ``say`` shows a line that is not part of the conversation."""

    window: ChatWindow
    say: Callable[[str], None]

    @property
    def chat(self) -> Chat:
        return self.window.chat

    @property
    def model(self) -> Model:
        return self.window.model


def _none(words: list[str]) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class SlashCommand:
    """``complete`` gets the words before the cursor and returns those that may stand there."""

    argument: str
    help: str
    run: Callable[[Context, str], None]
    complete: Callable[[list[str]], Iterable[str]] = _none
