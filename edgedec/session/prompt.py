"""From messages to token ids, keeping the ids that the model really produced.

A reply's text, encoded again, may become other tokens than the ones that were drawn. The cache holds the
drawn ones, so a conversation is continued from those ids and only what follows them is encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from edgedec.text.tokenizer import valid_text

if TYPE_CHECKING:
    from edgedec.text.template import ChatTemplate
    from edgedec.text.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant")
_ANOTHER = "\u2042"
"""A turn that nobody begins with."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn; ``role`` is one of ``ROLES``. Lone surrogates in ``content`` become U+FFFD."""

    role: str
    content: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", valid_text(self.content))


@dataclass(frozen=True, slots=True)
class Prompt:
    """Rendered conversation and its token ids."""

    text: str
    ids: list[int]


class Prompts:
    """Renders conversations with ``template``, or as plain text to be continued when there is none."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self.seen = Prompt("", [])
        """The conversation up to the end of the last reply, with the ids that were fed and drawn."""

    def remember(self, text: str, ids: Sequence[int]) -> None:
        """The model has now seen ``text`` as exactly these ``ids``."""
        self.seen = Prompt(text, list(ids))

    def forget(self) -> None:
        self.seen = Prompt("", [])

    def build(self, messages: Sequence[Message]) -> Prompt:
        """Token ids of the conversation, ready for the next reply. Raises TemplateError."""
        text, whole = self._render(messages)
        if not self.seen.ids or not text.startswith(self.seen.text):
            return Prompt(text, whole)
        # What follows is joined to the known ids only if it stands on its own, that is, if the encoding of
        # the whole text ends with it; elsewhere (a merge across the seam) the whole encoding is used.
        rest = text[len(self.seen.text) :]
        if not rest:
            return self.seen
        tail = self._tokenizer.encode(rest, add_bos=False, parse_special=self._template is not None)
        if tail and whole[-len(tail) :] == tail:
            return Prompt(text, [*self.seen.ids, *tail])
        return Prompt(text, whole)

    def preamble(self, messages: Sequence[Message], prompt: Prompt) -> int:
        """How many tokens at the beginning of ``prompt`` the first user's turn has no part in."""
        before = [message for message in messages[:1] if message.role == "system"]
        _, other = self._render([*before, Message("user", _ANOTHER)])
        pairs = enumerate(zip(prompt.ids, other, strict=False))
        return next((at for at, (one, two) in pairs if one != two), min(len(prompt.ids), len(other)))

    def _render(self, messages: Sequence[Message]) -> tuple[str, list[int]]:
        if self._template is None:
            text = "\n".join(message.content for message in messages)
            return text, self._tokenizer.encode(text)
        turns = [asdict(message) for message in messages]
        return self._template.render(turns), self._tokenizer.encode_chat(self._template, turns)
