"""A chat's model, as far as the chat asks for it, and what its replies cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edgedec.core.errors import UsageError
from edgedec.core.progress import Notice, ignore
from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.stats import Clock, ReplyStats

if TYPE_CHECKING:
    from edgedec.core.forward import Contrasting
    from edgedec.sampling import DrawParams
    from edgedec.session.reply import Reply


@dataclass
class Totals:
    """Cost of the chat so far: tokens, and seconds spent computing."""

    replies: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    completion_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0

    def add(self, stats: ReplyStats) -> None:
        self.replies += 1
        self.prompt_tokens += stats.prompt_tokens
        self.reused_tokens += stats.reused_tokens
        self.completion_tokens += stats.completion_tokens
        self.prefill_s += stats.prefill_s
        self.decode_s += stats.decode_s


def weigh(contrasting: Contrasting | None, prompt: int, without: Sequence[int]) -> None:
    """Let a model that weighs a text have a prompt of so many tokens without it.

    Raises UsageError where the prompt is about no text.
    """
    if contrasting is None:
        return
    if not without:
        raise UsageError(
            "the model was opened with a context weight, and the prompt is about no text",
            hint="ask with edgedec.AboutText(question, text)",
        )
    contrasting.leave_out(prompt, without)


def _always(params: DrawParams, logprobs: bool, form: bool, heal: bool) -> None:
    """Let every reply begin."""


def _own(prompt: Sequence[int]) -> None:
    """Begin with what the chat's own cache holds."""


def _nothing(reply: Reply) -> None:
    """Keep nothing of a reply."""


@dataclass(frozen=True, slots=True)
class Host:
    """The model of a chat, as far as the chat asks for it.

    ``ready`` is called before a reply begins, with the way it is drawn, whether log-probabilities are
    reported, whether it must have a form, and whether it may begin within a token of its prompt; it raises
    the error that stands against it. ``notice`` gets
    lines for the user, ``clock`` gives seconds. ``fetch`` is told the prompt that comes next, and may take
    its beginning into the chat's cache. ``kept`` is told a reply that has ended.
    """

    notice: Notice = ignore
    ready: Callable[[DrawParams, bool, bool, bool], None] = _always
    clock: Clock = time.perf_counter
    fetch: Callable[[Sequence[int]], object] = _own
    kept: Callable[[Reply], None] = _nothing

    def before(self, ended: Callable[[Reply], None]) -> Callable[[Reply], None]:
        """Return what calls ``kept``, and then ``ended``, with a reply that has ended."""

        def both(reply: Reply) -> None:
            self.kept(reply)
            ended(reply)

        return both
