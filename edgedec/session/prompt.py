"""From messages to token ids, keeping the ids that the model really produced.

A reply's text, encoded again, may become other tokens than the ones that were drawn. The KV cache holds the
drawn ones. So a conversation continues from those ids, and only the text that follows them is encoded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.session.message import (
    ROLES,
    AboutText,
    Message,
    conversation_of,
    in_one_system,
    message_of,
    with_system,
)
from edgedec.text.control_tokens import GuardedText
from edgedec.text.infill import Infill, InfillPrompt, infill_prompt
from edgedec.text.limits import TextLimits
from edgedec.text.template_inputs import TemplateInputs

if TYPE_CHECKING:
    from edgedec.grammar.spec import GrammarSpec
    from edgedec.text.passage import Turns
    from edgedec.text.template import ChatTemplate
    from edgedec.text.tokenizer import Tokenizer

__all__ = [
    "ROLES", "AboutText", "Message", "Prompt", "Prompts", "Unfinished", "conversation_of",
    "in_one_system", "message_of", "with_system",
]  # fmt: skip

RawText = str | Infill | AboutText
"""A text to be continued as it stands, the texts around a gap, or a question behind the text it is about."""
_UNLIKELY_TURN = "\u2042"
_NO_TOOLS = "leave the tools out, or use a model with a chat template"
_TEXT_COPIES = 4
"""Copies of a prompt's text while it is rendered and encoded."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered conversation and its token ids."""

    text: str
    ids: list[int]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A reply that a limit or the user cut: its prompt, its tokens so far, and the text shown of them.

    ``bound`` is mirostat's state behind the tokens, where they were drawn with it.
    ``form``: the one that it must have when it is whole.
    """

    prompt: Prompt
    tokens: tuple[int, ...]
    shown: str
    bound: float | None = None
    form: GrammarSpec | None = None


class Prompts:
    """Renders conversations with ``template``; without one, as plain text to be continued.

    ``limits`` holds the most tokens of a prompt, and books the memory that encoding takes; None: no limits.
    ``inputs`` has the tools and the options of the template.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        limits: TextLimits | None = None,
        inputs: TemplateInputs | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._limits = limits
        self.inputs = inputs or TemplateInputs()
        # A conversation before its oldest turns are dropped: all that the context holds, and a new turn.
        self._twice = limits and replace(limits, times=2)
        self.seen = Prompt("", [])
        """The conversation up to the end of the last reply, with the ids that the model has seen."""
        self._ends: list[tuple[int, int]] = []
        """Characters and tokens of ``seen`` before each turn that was remembered."""

    def use(self, template: ChatTemplate | None) -> None:
        """Render with another template from now on."""
        self._template = template

    def remember(self, text: str, ids: Sequence[int]) -> None:
        """Note that the model has seen ``text`` as exactly these ``ids``, which end with a new turn."""
        before, ids = self.seen, list(ids)
        if text.startswith(before.text) and ids[: len(before.ids)] == before.ids:
            self._ends.append((len(before.text), len(before.ids)))
        else:
            self._ends = [(0, 0)]
        self.seen = Prompt(text, ids)

    def take_back(self) -> None:
        """Forget the turn that was remembered last."""
        chars, tokens = self._ends.pop() if self._ends else (0, 0)
        self.seen = Prompt(self.seen.text[:chars], self.seen.ids[:tokens])

    def forget(self) -> None:
        """Start a new conversation."""
        self.seen = Prompt("", [])
        self._ends = []

    def check(self, text: str) -> None:
        """Raise ContextFullError for text from a user that certainly has more tokens than a prompt may have.

        Looks only at its length, so it is quick for a text of any size.
        """
        if self._limits:
            self._tokenizer.check_length(text, self._limits)

    def check_messages(self, messages: Sequence[Message]) -> None:
        """Raise ContextFullError for messages that together are certainly too long for a prompt.

        Those of the assistant do not count: templates leave parts of them out.
        """
        if self._limits:
            self.check("".join(one.content.strip() for one in messages if one.role != "assistant"))

    def turns(self, messages: Sequence[Message]) -> Turns:
        """Return messages for a model elsewhere; none where a template does not tell them apart.

        Nor are there any with tools, which that model would have in a form of its own.
        """
        if not self._template or self.inputs.tools or any(one.uses_tools for one in messages):
            return ()
        return [(one.role, one.content) for one in messages]

    @property
    def limits(self) -> TextLimits | None:
        """Limits on a prompt's tokens and on the memory for making them."""
        return self._limits

    def most_bytes(self) -> int | None:
        """Bytes of UTF-8 beyond which a text certainly does not fit; None for no limits."""
        return self._tokenizer.most_bytes(self._limits.most_tokens) if self._limits else None

    def raw(self, text: RawText, *, parse_special: bool = True, heal: bool = False) -> InfillPrompt:
        """Return the prompt of a text to be continued, or of a gap to be filled; raises as each of them.

        ``heal``: see ``infill_prompt``; a text to be continued stays as it is.
        """
        if isinstance(text, Infill):
            return infill_prompt(self._tokenizer, text, self._limits, heal=heal)
        whole = text.whole if isinstance(text, AboutText) else text
        return InfillPrompt(self.of_text(whole, parse_special=parse_special))

    def of_text(self, text: str, *, parse_special: bool = True) -> list[int]:
        """Return the token ids of a text to be continued as it stands. Raises ContextFullError.

        The text is the user's own: its control tokens are tokens, unless ``parse_special`` is False.
        """
        self.check(text)
        return self._tokenizer.encode(text, parse_special=parse_special, limits=self._limits)

    def build(self, messages: Sequence[Message]) -> Prompt:
        """Return the conversation as a prompt for the next reply.

        Raises TemplateError, UnsupportedError for tools that the template does not write, and
        ContextFullError for more than twice the tokens that a prompt may have. Up to there the prompt is
        returned, for its oldest turns may be dropped.
        """
        if self._limits is None:
            return self._build(messages)
        with self._limits.lease(self.text_bytes(messages)):
            return self._build(messages)

    def text_bytes(self, messages: Sequence[Message]) -> int:
        """Return the memory that the texts of a prompt take while they are rendered and encoded."""
        nbytes = sum(sys.getsizeof(text) for message in messages for text in message.texts())
        return _TEXT_COPIES * (nbytes + sum(len(json.dumps(tool)) for tool in self.inputs.tools))

    def preamble(self, messages: Sequence[Message], prompt: Prompt) -> int:
        """Count the tokens at the beginning of ``prompt`` that do not depend on the first user's turn."""
        before = [message for message in messages[:1] if message.role == "system"]
        other = self._tokenizer.with_bos(
            self._encode(self._render([*before, Message("user", _UNLIKELY_TURN)]))
        )
        pairs = enumerate(zip(prompt.ids, other, strict=False))
        return next((at for at, (one, two) in pairs if one != two), min(len(prompt.ids), len(other)))

    def _build(self, messages: Sequence[Message]) -> Prompt:
        rendered = self._render(messages)
        text, whole = rendered.text, self._tokenizer.with_bos(self._encode(rendered))
        if not self.seen.ids or not text.startswith(self.seen.text):
            return Prompt(text, whole)
        # The rest is joined to the known ids only if it stands on its own: if the encoding of the whole text
        # ends with the encoding of the rest. Elsewhere (a merge across the seam) the whole encoding is used.
        rest = rendered.part(len(self.seen.text))
        if not rest.text:
            return self.seen
        tail = self._encode(rest)
        if tail and whole[-len(tail) :] == tail:
            return Prompt(text, [*self.seen.ids, *tail])
        return Prompt(text, whole)

    def _render(self, messages: Sequence[Message]) -> GuardedText:
        if self._template is None:
            if self.inputs.tools or any(message.uses_tools for message in messages):
                raise UnsupportedError("this model has no chat template, and so no tools", hint=_NO_TOOLS)
            return GuardedText("\n".join(message.content for message in messages))
        turns = [message.for_template() for message in messages]
        return self._tokenizer.render_chat(self._template, turns, self.inputs)

    def _encode(self, rendered: GuardedText) -> list[int]:
        """Return the ids of a rendered text. Without a template it has no control tokens."""
        if self._template is None:
            return self._tokenizer.encode(rendered.text, add_bos=False, limits=self._twice)
        return self._tokenizer.encode_rendered(rendered, self._twice)
