"""The loop: plan, extend, draw, commit, observe.

``Engine.committed`` is the one truth, the token sequence. The model's cache follows it and may lag behind;
what it lacks is fed by the next pass. Whatever happens in between (the caller closes the iterator, a pass
fails, Ctrl-C), the cache holds a prefix of ``committed``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Literal

from edgedec.core.errors import ContextFullError, UsageError
from edgedec.core.types import LAST_ROW, Forward, HeadRows, ModelSpec, Rows
from edgedec.sampling import SamplingParams, draw, needs_logits

FinishReason = Literal["stop", "length"]
Progress = Callable[[int, int], None]

LONGEST_PASS = 128
"""A reply can be stopped between passes; twice as many tokens take twice as long, not less per token."""

_NO_ROWS = Rows(indices=())
_LAST_ROW_FULL = Rows(last=True, full=True)


@dataclass(frozen=True, slots=True)
class Step:
    """One committed token, its absolute position, and why it is the last one if it is."""

    token: int
    position: int
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did: tokens fed from ``start`` on, tokens committed from it, and its time if clocked."""

    start: int
    fed: int
    committed: int
    seconds: float | None


class Engine:
    """Generates tokens with one model. ``observe`` sees every pass, timed if there is a ``clock`` (in s)."""

    def __init__(
        self,
        forward: Forward,
        *,
        observe: Callable[[PassRecord], None] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._forward = forward
        self._observe = observe
        self._clock = clock
        self._runs = 0
        self.committed: list[int] = []
        forward.rewind(0)

    @property
    def spec(self) -> ModelSpec:
        return self._forward.spec

    @property
    def capacity(self) -> int:
        """Most tokens ``committed`` can have."""
        return self._forward.capacity

    def reusable(self, prompt_ids: Sequence[int]) -> int:
        """How many tokens of a prompt need not be fed; its last one always is, for its logits."""
        most = min(len(self.committed), self._forward.length, len(prompt_ids) - 1)
        for index in range(most):
            if self.committed[index] != prompt_ids[index]:
                return index
        return max(most, 0)

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        max_tokens: int,
        stop_ids: Collection[int],
        progress: Progress | None = None,
    ) -> Generator[Step, None, None]:
        """Continue ``prompt_ids``, one Step per committed token; the last one says why it ended.

        "stop": its token is in ``stop_ids`` (it is committed too); "length": ``max_tokens`` or the context is
        reached. ``progress(done, total)`` counts the prompt's tokens as they are fed. What the prompt shares
        with ``committed`` is not computed again. Checked before anything changes: UsageError for an empty
        prompt, an id outside the vocabulary or ``max_tokens`` below 1; ContextFullError when the prompt
        leaves no room for a token.
        """
        prompt = list(prompt_ids)
        self._check(prompt, max_tokens)
        self._forward.rewind(self.reusable(prompt))
        self.committed = prompt
        self._runs += 1
        end = min(len(prompt) + max_tokens, self.capacity)
        return self._run(self._runs, params, end, frozenset(stop_ids), progress)

    def _run(
        self, run: int, params: SamplingParams, end: int, stop_ids: frozenset[int], progress: Progress | None
    ) -> Generator[Step, None, None]:
        rows = _LAST_ROW_FULL if needs_logits(params, self.spec.head_k) else LAST_ROW
        prompt = len(self.committed)
        reason: FinishReason | None = None
        while reason is None:
            if run != self._runs:
                raise UsageError("a newer reply took over", hint="iterate only the newest one")
            head = self._catch_up(rows, prompt, progress)
            position = len(self.committed)
            token = draw(head, 0, params, position, self.committed)
            self.committed.append(token)
            if token in stop_ids:
                reason = "stop"
            elif position + 1 == end:
                reason = "length"
            yield Step(token, position, reason)

    def _catch_up(self, rows: Rows, prompt: int, progress: Progress | None) -> HeadRows:
        """Feed what the cache lacks, in passes of at most ``LONGEST_PASS``; returns the last head row."""
        most = min(self._forward.caps.max_pass, LONGEST_PASS)
        while True:
            start = self._forward.length
            tokens = self.committed[start : start + most]
            last = start + len(tokens) == len(self.committed)
            began = self._clock() if self._clock else 0.0
            head = self._forward.extend(tokens, rows=rows if last else _NO_ROWS)
            seconds = self._clock() - began if self._clock else None
            if self._observe:
                self._observe(PassRecord(start, len(tokens), int(last), seconds))
            if progress and start < prompt:
                progress(start + len(tokens), prompt)
            if last:
                return head

    def _check(self, prompt: Sequence[int], max_tokens: int) -> None:
        if not prompt:
            raise UsageError("the prompt is empty", hint="there must be at least one token to continue")
        if max_tokens < 1:
            raise UsageError(f"cannot generate {max_tokens} tokens", hint="ask for at least 1")
        if min(prompt) < 0 or max(prompt) >= self.spec.vocab_size:
            raise UsageError(f"the prompt has a token outside the vocabulary of {self.spec.vocab_size}")
        if len(prompt) >= self.capacity:
            raise ContextFullError(
                f"the prompt has {len(prompt)} tokens, and the context holds {self.capacity}",
                hint=f"shorten it to at most {self.capacity - 1} or use a larger context",
            )
