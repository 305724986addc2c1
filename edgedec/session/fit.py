"""What stays of a conversation that no longer fits the context.

The system message and the newest turns stay, the oldest are dropped, whole ones, so that templates which want
user and assistant in turn still render. So many go that what stays fills three quarters of the context: else
every further turn would drop one, and each time all the others have to be fed again. For the kept ones stand
at other positions then, and their keys with them: of the cache only what precedes them remains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgedec.session.prompt import Message, Prompt


@dataclass(frozen=True, slots=True)
class Fitted:
    """A conversation with its prompt, after the oldest ``dropped`` turns are gone."""

    messages: list[Message]
    prompt: Prompt
    dropped: int = 0


def fit(
    messages: Sequence[Message],
    build: Callable[[Sequence[Message]], Prompt],
    capacity: int,
    longest_reply: int,
    limit: int | None = None,
) -> Fitted:
    """``messages``, of which the last is the user's, as they are or without their oldest turns.

    Sizes are those of the prompts that ``build`` makes of them. ``limit``: tokens that may be there before
    turns go, if these are more than ``capacity``. Raises what ``build`` raises.
    """
    system, turns = _split(messages)
    made: dict[int, Prompt] = {}

    def keeping(newest: int) -> list[Message]:
        return [*system, *(message for turn in turns[len(turns) - 1 - newest :] for message in turn)]

    def tokens(newest: int) -> int:
        made[newest] = build(keeping(newest))
        return len(made[newest].ids)

    past = len(turns) - 1
    kept = turns_that_stay(tokens, past, capacity, longest_reply, limit)
    return Fitted(keeping(kept), made[kept], past - kept)


def turns_that_stay(
    tokens: Callable[[int], int], past: int, capacity: int, longest_reply: int, limit: int | None = None
) -> int:
    """How many of ``past`` turns, the newest, stay beside the system message and the new turn.

    ``tokens(n)`` is the size of a prompt with the newest n of them; it grows with n, and is asked for few n,
    for the answer among them. All stay if the prompt leaves room for a reply: for the longest one, or an
    eighth of the context if that is less. Else as many as fit into three quarters; if not even the new turn
    does alone, that is for others to refuse. With ``limit`` all stay up to that.
    """
    room = max(min(longest_reply, capacity // 8), 1)
    if tokens(past) <= (limit or capacity) - room:
        return past
    fitting, too_many = -1, past
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if tokens(middle) <= capacity * 3 // 4:
            fitting = middle
        else:
            too_many = middle
    return max(fitting, 0)


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """The system message, if there is one, and turns, each with what answers it."""
    start = int(bool(messages) and messages[0].role == "system")
    turns: list[list[Message]] = []
    for message in messages[start:]:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return list(messages[:start]), turns


def notice(dropped: int, system: bool) -> str:
    """What the user is told."""
    what = "turn" if dropped == 1 else f"{dropped} turns"
    return f"context is full: dropped the oldest {what}{'; the system message stays' if system else ''}"
