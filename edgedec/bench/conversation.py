"""Prompts of a conversation as ``edgedec chat`` makes them: the ids of replies stay as they were drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgedec.session.fit import fit
from edgedec.session.prompt import Message, Prompt, Prompts

if TYPE_CHECKING:
    from edgedec.text.template import ChatTemplate
    from edgedec.text.tokenizer import Tokenizer

_ENDLESS = 1 << 40


class Conversation:
    """A ``Script`` (see ``contest``) over a model's template, or over plain text for one without."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        end_ids: Sequence[int],
        system: str | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._end_ids = frozenset(end_ids)
        self._prompts = Prompts(tokenizer, template)
        self._messages = [Message("system", system)] if system else []
        self.dropped = 0
        self._latest = Prompt("", [])

    def prompt(self, turn: str, capacity: int = _ENDLESS, reply: int = 1) -> list[int]:
        messages = [*self._messages, Message("user", turn)]
        fitted = fit(messages, self._prompts.build, capacity, reply)
        self._messages, self._latest = fitted.messages, fitted.prompt
        self.dropped += fitted.dropped
        return self._latest.ids

    def heard(self, tokens: Sequence[int]) -> None:
        said = [token for token in tokens if token not in self._end_ids]
        text = self._tokenizer.decode(said)
        self._messages.append(Message("assistant", text))
        self._prompts.remember(self._latest.text + text, [*self._latest.ids, *said])


def longest_prompt(turns: Sequence[str], conversation: Conversation, reply: int) -> int:
    """Most tokens that the prompt of the last of ``turns`` can have when replies have at most ``reply``."""
    count = 0
    for turn in turns:
        count = len(conversation.prompt(turn))
        conversation.heard([])
    return count + (len(turns) - 1) * (reply + _SEAM)


_SEAM = 16
"""Tokens by which the text around a reply may be longer than around an empty one."""
