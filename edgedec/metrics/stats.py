"""Statistics of one reply, measured with a clock that the caller passes in.

Times are in seconds, rates in tokens per second. Only committed tokens count; rejected drafts do not.
"""

from __future__ import annotations

from collections.abc import Callable

from edgedec.core.quick_dataclass import dataclass

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class FormCost:
    """The cost of an unbiased reply of a form: tries, and tokens of dropped ones that were computed.

    ``probability_at_most``: of a free reply having the form, as far as the tries told.
    """

    tries: int = 0
    dropped_tokens: int = 0
    probability_at_most: float = 1.0

    def as_json(self) -> dict[str, int | float]:
        """Return the figures as JSON fields."""
        return {
            "form_tries": self.tries,
            "form_tokens_dropped": self.dropped_tokens,
            "form_probability_at_most": self.probability_at_most,
        }


@dataclass(frozen=True, slots=True)
class ReplyStats:
    """Figures of one reply. ``reused_tokens`` are those of the prompt that were in the KV cache already."""

    prompt_tokens: int
    reused_tokens: int
    completion_tokens: int
    prefill_s: float
    """From the start of the reply to its first token."""
    decode_s: float
    """From the first token to the last one."""
    thought_tokens: int = 0
    """Tokens of the thinking part."""
    thought_closed: bool = False
    """Whether the limit on the thinking part closed it."""
    form: FormCost | None = None
    """The cost of a reply that was drawn from the model's own law, given that it has a form."""

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Prompt tokens fed per second, without the reused ones; None when nothing was measured."""
        fed = self.prompt_tokens - self.reused_tokens
        return fed / self.prefill_s if fed > 0 and self.prefill_s > 0 else None

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Tokens after the first per second; None for replies of fewer than two tokens."""
        steps = self.completion_tokens - 1
        return steps / self.decode_s if steps > 0 and self.decode_s > 0 else None

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and reply together."""
        return self.prompt_tokens + self.completion_tokens

    def as_json(self) -> dict[str, float | int | None]:
        """Return the figures about one reply as JSON fields."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "reused_tokens": self.reused_tokens,
            "completion_tokens": self.completion_tokens,
            "prefill_s": _rounded(self.prefill_s),
            "decode_s": _rounded(self.decode_s),
            "prefill_tokens_per_s": _rounded(self.prefill_tokens_per_s),
            "decode_tokens_per_s": _rounded(self.decode_tokens_per_s),
            **self._thought(),
            **(self.form.as_json() if self.form else {}),
        }

    def _thought(self) -> dict[str, int]:
        """Return the figures of a thinking part; none without one."""
        if not (self.thought_tokens or self.thought_closed):
            return {}
        return {"thought_tokens": self.thought_tokens, "thought_closed": self.thought_closed}

    def summary(self, capacity: int | None = None) -> str:
        """Describe it in one line: ``42 tokens, 35.1 tok/s | prompt 18 at 210 tok/s | context 60/2048``."""
        count = self.completion_tokens
        parts = [f"{count} token{'' if count == 1 else 's'}"]
        if (rate := self.decode_tokens_per_s) is not None:
            parts[0] += f", {rate:.1f} tok/s"
        if self.thought_tokens or self.thought_closed:
            parts[0] += f", {self.thought_tokens} of thought{' (closed)' if self.thought_closed else ''}"
        prompt = f"prompt {self.prompt_tokens}"
        if self.reused_tokens:
            prompt += f" ({self.reused_tokens} reused)"
        if (rate := self.prefill_tokens_per_s) is not None:
            prompt += f" at {rate:.0f} tok/s"
        parts.append(prompt)
        if self.form:
            tries = "1 try" if self.form.tries == 1 else f"{self.form.tries} tries"
            parts.append(f"{tries}, {self.form.dropped_tokens} tokens dropped")
        if capacity is not None:
            parts.append(f"context {self.context_tokens}/{capacity}")
        return " | ".join(parts)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


class ReplyTimer:
    """Measures when a reply starts and when each of its tokens is committed.

    >>> ticks = iter([0.0, 0.5, 0.6, 0.7])
    >>> timer = ReplyTimer(prompt_tokens=10, reused_tokens=0, clock=lambda: next(ticks))
    >>> for _ in range(3):
    ...     timer.token()
    >>> timer.stats().prefill_tokens_per_s
    20.0
    """

    def __init__(self, *, prompt_tokens: int, reused_tokens: int, clock: Clock) -> None:
        self._prompt = prompt_tokens
        self._reused = reused_tokens
        self._clock = clock
        self._tokens = 0
        self._start = clock()
        self._first: float | None = None
        self._last: float | None = None

    def token(self) -> None:
        """Call once for every committed token, as soon as it is known."""
        now = self._clock()
        if self._first is None:
            self._first = now
        self._last = now
        self._tokens += 1

    def stats(self, form: FormCost | None = None) -> ReplyStats:
        """Return the figures so far; without a token both durations are zero."""
        first = self._start if self._first is None else self._first
        last = first if self._last is None else self._last
        times = first - self._start, last - first
        return ReplyStats(self._prompt, self._reused, self._tokens, *times, form=form)
