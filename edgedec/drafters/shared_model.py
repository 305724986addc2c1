"""A draft model of several conversations: the passes in which they draft at the same time become one.

Each conversation has a sequence of its own in the draft model's KV cache. A pass is charged to those that are
in it, by their tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from edgedec.backends.backend import Backend, PassRequest, SequenceBatch
from edgedec.core.cache_config import CacheConfig
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.core_lib.turns import Turns
from edgedec.decode.conversation_clock import ConversationClock

SHARED_TOKENS = 16
"""Tokens of each other conversation beside one that reads a text: what the target committed in a round."""


def batch_tokens(longest: int, count: int) -> int:
    """Return the tokens of the longest pass over ``count`` conversations, ``longest`` of one."""
    return longest + (count - 1) * SHARED_TOKENS


class SharedModel:
    """``count`` sequences over ``backend``; their memory is leased from ``ledger``. To be closed.

    Raises the errors of ``Backend.sequences``.
    """

    def __init__(self, backend: Backend, count: int, cache: CacheConfig, ledger: Ledger) -> None:
        self._turns: dict[int, _SharedTurns] = {}
        most = batch_tokens(cache.max_pass or backend.caps.max_pass, count)
        self._batch = backend.sequences(count, cache, batch_tokens=most, ledger=ledger, observe=self._passed)

    def place(self, number: int, clock: ConversationClock) -> tuple[Forward, Turns]:
        """Return the forward of conversation ``number``, and its turns; ``clock`` is charged for passes."""
        turns = self._turns[number] = _SharedTurns(self._batch, number, clock)
        return self._batch.forwards[number], turns

    def close(self) -> None:
        """Run no more passes."""
        self._batch.close()

    def _passed(self, requests: Sequence[PassRequest], seconds: float) -> None:
        total = sum(len(request.tokens) for request in requests)
        for request in requests:
            self._turns[request.sequence].passed(seconds, len(request.tokens) / total)


class _SharedTurns(Turns):
    def __init__(self, batch: SequenceBatch, number: int, clock: ConversationClock) -> None:
        self._batch, self._number, self._clock = batch, number, clock

    def drafting(self) -> AbstractContextManager[None]:
        """Let the passes of others that draft now wait for this draft's."""
        return self._batch.reply(self._number)

    def passing(self) -> AbstractContextManager[None]:
        """Charge the share of a pass in place of the time that the thread spends on all of it."""
        return self._clock.sharing()

    def passed(self, seconds: float, share: float) -> None:
        """Note the share of a pass, before the drafter goes on."""
        self.share = share
        self._clock.charge(seconds * share)
