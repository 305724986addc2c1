"""A conversation: turns in, streamed replies out, one cache kept across all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from edgedec.core.errors import TemplateError
from edgedec.core.when_full import DROP, STOP
from edgedec.draft import lookup_ahead
from edgedec.eviction.policies import policy_for
from edgedec.memory.ledger import SLACK
from edgedec.session import fit
from edgedec.session.prompt import Message, Prompts
from edgedec.session.reply import Reply, Settings
from edgedec.telemetry.stats import Clock, ReplyStats
from edgedec.text.limits import TextLimits

if TYPE_CHECKING:
    from edgedec.core.forward import Forward
    from edgedec.decode.speculation import Speculation
    from edgedec.text.template import ChatTemplate
    from edgedec.text.tokenizer import Tokenizer


@dataclass
class Totals:
    """What the session has cost so far. Tokens, and seconds spent computing."""

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


class Session:
    """Messages, the prompt they render to, and the engine that answers.

    A turn that fails (context full, broken template) or that is stopped before its first character leaves
    the conversation as it was; a reply stopped half-way is kept as far as it was shown. When the context is
    full the oldest turns are dropped, which a line to ``notice`` says, or with "stop" the turn fails. With
    "slide" and "speckv" tokens leave the cache, see ``memory.policy``; turns are dropped where the model's
    own context ends.

    ``messages`` are what the model still sees, not all that was said: neither the session nor its file grows
    without bound, and what a file says is what the next reply will be an answer to.
    """

    def __init__(
        self,
        forward: Forward,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        settings: Settings | None = None,
        *,
        system: str | None = None,
        speculation: Speculation | None = None,
        when_full: str = DROP,
        notice: Callable[[str], None] = lambda line: None,
        clock: Clock = time.perf_counter,
    ) -> None:
        from edgedec.decode.engine import Engine

        self._forward = forward
        self.policy = policy_for(when_full, forward, speculation.ahead if speculation else lookup_ahead)
        self.speculation = speculation
        self.traced = False
        """Whether replies are shown with who drafted what."""
        self.engine = Engine(
            forward, speculation=speculation, clock=clock if speculation else None, policy=self.policy
        )
        self.tokenizer = tokenizer
        limits = TextLimits(self.engine.capacity, partial(forward.ledger.lease, SLACK))
        self.prompts = Prompts(tokenizer, template, limits)
        self.settings = settings or Settings()
        self.messages: list[Message] = []
        self.totals = Totals()
        self.last: Reply | None = None
        """The latest reply, running or finished."""
        self._when_full = when_full
        self._notice = notice
        self._clock = clock
        self.set_system(system)

    @property
    def system(self) -> str | None:
        first = self.messages[0] if self.messages else None
        return first.content if first and first.role == "system" else None

    def set_system(self, text: str | None) -> None:
        """Start over with this system message (None or empty: without one)."""
        self.messages = [Message("system", text)] if text else []
        self.prompts.forget()

    def reset(self) -> None:
        """Forget every turn; the system message stays."""
        self.set_system(self.system)

    def reply(self, text: str) -> Generator[str, None, None]:
        """Answer one user turn; yields text as it is certain. ``interrupt()`` ends it early.

        Raises ContextFullError when the turn does not fit, with "stop" also when the conversation with it
        does not; TemplateError when they do not render.
        """
        self.prompts.check(text)
        before = self.messages
        fitted = self._fitted([*before, Message("user", text)])
        prompt = fitted.prompt
        reply = Reply(self.engine, self.tokenizer, prompt.ids, self.settings, clock=self._clock)
        if fitted.dropped:
            self._notice(fit.notice(fitted.dropped, self.system is not None))
        self.last = reply
        self.messages = fitted.messages
        try:
            yield from reply
        finally:
            self.totals.add(reply.stats)
            if reply.text or reply.finish_reason == "stop":
                self.messages.append(Message("assistant", reply.text))
                self._remember(prompt.text, reply)
            else:
                self.messages = before

    def complete(self, text: str) -> Generator[str, None, None]:
        """Continue ``text`` as it stands: no template, and the conversation is neither read nor changed."""
        ids = self.prompts.of_text(text)
        self.last = Reply(self.engine, self.tokenizer, ids, self.settings, clock=self._clock)
        yield from self.last

    def interrupt(self) -> None:
        """End the reply in progress after its current token; does nothing when there is none."""
        if self.last is not None:
            self.last.interrupt()

    def recover(self) -> None:
        """After an exception in the middle of a pass: drop the cache; the next reply rebuilds it."""
        self.engine.reset()

    def cached(self) -> list[int]:
        """The conversation's tokens that the cache holds: nothing of turns that were taken back or reset."""
        if not any(message.role == "user" for message in self.messages):
            return []
        try:
            prompt = self.prompts.build(self.messages)
        except TemplateError:  # it may want a user's turn at the end
            prompt = self.prompts.seen
        return list(self.engine.committed[: self.engine.reusable(prompt.ids)])

    def adjust(self, **changes: object) -> None:
        """Replace fields of ``settings`` for the replies to come."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]

    def _fitted(self, messages: list[Message]) -> fit.Fitted:
        """The turn to come, in a conversation that it fits into."""
        if self._when_full == STOP:
            return fit.Fitted(messages, self.prompts.build(messages))
        engine, build = self.engine, self.prompts.build
        fitted = fit.fit(messages, build, engine.slots, self.settings.max_tokens, engine.capacity)
        if self.policy:
            self.policy.keep(self.prompts.preamble(fitted.messages, fitted.prompt))
        return fitted

    def _remember(self, rendered: str, reply: Reply) -> None:
        if reply.exact:
            self.prompts.remember(rendered + reply.text, [*reply.prompt, *reply.said])
        else:
            self.prompts.forget()
