"""Prompts of a conversation as a chat makes them. Token ids of replies stay as they were drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.session.fit import fit
from edgedec.session.prompt import Message, Prompt, Prompts

if TYPE_CHECKING:
    from edgedec.bundle.manifest import Manifest
    from edgedec.text.template import ChatTemplate
    from edgedec.text.tokenizer import Tokenizer

ENDLESS_TOKENS = 1 << 40
"""A context that no prompt fills."""


class ChatPrompts:
    """Makes the prompts of one conversation with a model's chat template, or as plain text without one.

    ``dropped`` counts the turns that no longer fitted a context.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None, end_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._end_ids = frozenset(end_ids)
        self._prompts = Prompts(tokenizer, template)
        self._messages: list[Message] = []
        self.dropped = 0
        self._latest = Prompt("", [])

    def prompt(self, turn: str, capacity: int = ENDLESS_TOKENS, reply: int = 1) -> list[int]:
        """Return the token ids of the conversation up to this turn of the user.

        The oldest turns are dropped until ``reply`` tokens fit a context of ``capacity``; see
        ``session.fit``.
        """
        messages = [*self._messages, Message("user", turn)]
        fitted = fit(messages, self._prompts.build, capacity, reply)
        self._messages, self._latest = fitted.messages, fitted.prompt
        self.dropped += fitted.dropped
        return self._latest.ids

    def add_reply(self, tokens: Sequence[int]) -> None:
        """Append the reply to the latest prompt, its end token included."""
        reply = [token for token in tokens if token not in self._end_ids]
        text = self._tokenizer.decode(reply)
        self._messages.append(Message("assistant", text))
        self._prompts.remember(self._latest.text + text, [*self._latest.ids, *reply])


def prompts_of(bundle: Path, manifest: Manifest) -> Callable[[], ChatPrompts]:
    """Return what makes the prompts of one conversation with the model of a bundle."""
    from edgedec.loaded_model import load_template
    from edgedec.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    template, ends = load_template(bundle, tokenizer, manifest), tuple(manifest.spec.eos_ids)
    return lambda: ChatPrompts(tokenizer, template, ends)


def longest_prompt(turns: Sequence[str], conversation: ChatPrompts, reply: int) -> int:
    """Return the most tokens that the last prompt can have when replies have at most ``reply`` tokens."""
    count = 0
    for turn in turns:
        count = len(conversation.prompt(turn))
        conversation.add_reply([])
    return count + (len(turns) - 1) * (reply + _REPLY_MARGIN_TOKENS)


_REPLY_MARGIN_TOKENS = 16
"""Tokens by which the text around a reply may be longer than around an empty one."""
