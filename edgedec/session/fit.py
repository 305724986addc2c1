"""Dropping the oldest turns of a conversation that no longer fits the context.

The system message and the newest turns stay. Whole turns are dropped, so that templates which want user and
assistant in turn still render. The rest then fills at most 75 % of the context: otherwise every further turn
would drop one. The turns that stay move to other positions, so the model reads them again; of the KV cache
only the part before them is reused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgedec.core.errors import ContextFullError
from edgedec.core.quick_dataclass import dataclass
from edgedec.session.prompt import Message, Prompt

_MOST_FILLED = 0.75
_LEAST_ROOM = 8
"""One part in so many of the context is a reply's in any case."""
_TOO_MANY_TOKENS = 1 << 62


@dataclass(frozen=True, slots=True)
class Fitted:
    """A conversation with its prompt, after its oldest ``dropped`` turns were dropped."""

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
    """Return ``messages``, the last of which is the user's, without the oldest turns that do not fit.

    ``build`` makes a prompt, whose tokens count. ``capacity`` and ``longest_reply`` are tokens. ``limit`` is
    the number of tokens up to which no turn is dropped, where that is more than ``capacity``.

    Raises the errors of ``build``, but ContextFullError only if the new turn alone has it.
    """
    system, turns = _split(messages)
    made: dict[int, Prompt] = {}
    errors: dict[int, ContextFullError] = {}

    def keeping(newest: int) -> list[Message]:
        return [*system, *(message for turn in turns[len(turns) - 1 - newest :] for message in turn)]

    def tokens(newest: int) -> int:
        try:
            made[newest] = build(keeping(newest))
        except ContextFullError as error:
            errors[newest] = error
            return _TOO_MANY_TOKENS
        return len(made[newest].ids)

    past = len(turns) - 1
    kept = turns_that_stay(tokens, past, capacity, longest_reply, limit)
    if kept in errors:
        raise errors[kept]
    return Fitted(keeping(kept), made[kept], past - kept)


def turns_that_stay(
    tokens: Callable[[int], int], past: int, capacity: int, longest_reply: int, limit: int | None = None
) -> int:
    """Count how many of ``past`` turns stay, the newest ones, beside the system message and the new turn.

    ``tokens(n)`` is the size of a prompt with the newest n of them. It must grow with n; it is called for few
    n, and for the n that is returned.

    All stay if the prompt leaves room for a reply: for the longest one, or an eighth of the context if that
    is less. Otherwise as many stay as fit into 75 % of the context; 0 if not even the new turn fits. With
    ``limit`` all stay up to that many tokens.
    """
    room = max(min(longest_reply, capacity // _LEAST_ROOM), 1)
    if tokens(past) <= (limit or capacity) - room:
        return past
    fitting, too_many = -1, past
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if tokens(middle) <= capacity * _MOST_FILLED:
            fitting = middle
        else:
            too_many = middle
    return max(fitting, 0)


def reply_room(prompt: int, capacity: int) -> int:
    """Count the tokens that a reply without a limit may have, so that another turn fits behind it.

    It ends where 75 % of the context are filled, but has an eighth of the context in any case; ``prompt`` and
    ``capacity`` are tokens.
    """
    return max(int(capacity * _MOST_FILLED) - prompt, capacity // _LEAST_ROOM, 1)


def fills_the_context(capacity: int) -> ContextFullError:
    """Return the error for a reply that cannot go on."""
    return ContextFullError(
        f"the reply fills the context of {capacity} tokens", hint="begin a new turn, or use a larger context"
    )


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Separate the system message, if there is one, from the turns, each with its answer."""
    start = int(bool(messages) and messages[0].role == "system")
    turns: list[list[Message]] = []
    for message in messages[start:]:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return list(messages[:start]), turns


def notice(dropped: int, system: bool) -> str:
    """Say that turns were dropped, in one line for the user."""
    turns = "turn" if dropped == 1 else f"{dropped} turns"
    return f"context is full: dropped the oldest {turns}{'; the system message stays' if system else ''}"
