"""How many turns a conversation has, and its end in a few lines for someone who comes back to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgedec.cli import screen

if TYPE_CHECKING:
    from edgedec.session.chat import Chat
    from edgedec.session.message import Message

_MOST_LINES, _MOST_CHARS = 8, 600
"""Most of a message that is shown."""
_CUT = "..."


def last_turn(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the beginning of the user's last message, and the end of the reply to it."""
    at = max((at for at, one in enumerate(messages) if one.role == "user"), default=None)
    if at is None:
        return
    asked = screen.harmless(messages[at].content).strip()
    shown = asked[:_MOST_CHARS].splitlines()[:_MOST_LINES]
    cut = len("\n".join(shown)) < len(asked)
    first, *others = shown or [""]
    yield f"> {first}"
    yield from (*others, *([_CUT] if cut else []))
    replies = [one.content for one in messages[at + 1 :] if one.role == "assistant"]
    said = screen.harmless(replies[-1]).strip() if replies else ""
    shown = said[-_MOST_CHARS:].splitlines()[-_MOST_LINES:]
    cut = len("\n".join(shown)) < len(said)
    yield from (*([_CUT] if cut else []), *shown)


def count_turns(chat: Chat) -> int:
    """Return how many turns the user has taken."""
    return sum(message.role == "user" for message in chat.messages)


def turns(chat: Chat) -> str:
    """Say how many turns there are: ``2 turns``."""
    count = count_turns(chat)
    return f"{count} turn{'' if count == 1 else 's'}"
