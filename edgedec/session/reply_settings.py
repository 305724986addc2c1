"""How a reply is drawn and when it ends, and the place where it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from edgedec.core.cache_config import DROP, WhenFull
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.grammar.spec import GrammarSpec
    from edgedec.text.passage import Turns
    from edgedec.text.reply_reader import ReplyReader
    from edgedec.text.thought import ThoughtRule


@dataclass(frozen=True, slots=True)
class Settings:
    """How replies are drawn and when they end.

    ``max_tokens`` bounds a reply in tokens; None lets it go on as far as the context reaches. ``stops`` are
    strings that end it. ``when_full`` says what a chat does when its context is full. ``logprobs``:
    alternatives to report per token; None reports nothing. ``spelled``: control tokens that are text, for a
    reader of tool calls. ``channels``: they are the marks of replies in channels, see ``text.channels``.
    """

    params: DrawParams = field(default_factory=DrawParams)
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    when_full: WhenFull = DROP
    logprobs: int | None = None
    spelled: frozenset[int] = frozenset()
    channels: bool = False
    grammar: GrammarSpec | None = None
    """The form that replies must have."""
    thought: ThoughtRule | None = None
    """The thinking part of replies, and when it is closed; None: nothing is known of one."""

    @property
    def masked(self) -> bool:
        """Whether not every token may come next everywhere."""
        return self.grammar is not None or bool(self.thought and self.thought.limit is not None)

    @property
    def unbiased(self) -> bool:
        """Whether replies have the model's own law, given their form."""
        return self.grammar is not None and self.grammar.sampling == "unbiased"

    @property
    def drawn(self) -> DrawParams:
        """``params`` as they are drawn with. Raises the errors of ``own_law``."""
        if not self.unbiased:
            return self.params
        from edgedec.session.unbiased import own_law

        return own_law(self.params, self.logprobs)


@dataclass(frozen=True, slots=True)
class Start:
    """The place where a reply begins: after ``prompt`` (token ids), or further on in a reply that was cut.

    ``tokens`` are those of the cut reply, ``shown`` is its text. ``room``: most tokens that the context
    has for this part; None: all that are left. ``turns``: the messages of the prompt; none for a text.
    ``reader`` makes a reader of its text from the beginning; None for a text that is nothing but content.
    ``bound``: mirostat's state behind ``tokens``. ``ends``: tokens that end it, beside those of the model.
    ``held``: bytes that it begins with, which are the end of the text before it; see ``session.healed``.
    ``without``: the prompt without the text that it is about, where that is weighed.
    """

    prompt: Sequence[int]
    tokens: Sequence[int] = ()
    shown: str = ""
    room: int | None = None
    turns: Turns = ()
    reader: Callable[[], ReplyReader] | None = None
    bound: float | None = None
    ends: frozenset[int] = frozenset()
    held: bytes = b""
    without: Sequence[int] = ()
