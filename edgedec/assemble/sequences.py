"""The sequences of a run: one, whose passes run at once, or several, whose passes become passes over all.

Both have the same methods, so that the rest of a run need not know which it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock

from edgedec.backends.backend import PassRequest
from edgedec.control import BatchCosts, CostCurve, Costs, StreamedCosts
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BackendError
from edgedec.core.experts import StoreCounts
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.decode.conversation_clock import ConversationClock
from edgedec.decode.passes import PassTimer
from edgedec.drafters.interface import BatchPlace
from edgedec.loaded_model import LoadedModel
from edgedec.metrics.stats import Clock
from edgedec.metrics.traffic import Work


class OneSequence:
    """The KV cache of one conversation, ``forward``. A pass runs in the thread that asks for it."""

    def __init__(self, model: LoadedModel, forward: Forward, clock: Clock) -> None:
        self.forwards: tuple[Forward, ...] = (forward,)
        self.clock = clock
        """Times passes."""
        self._store = model.backend.experts
        self._turn = Lock()
        self._closed = False

    def timer(self, number: int) -> PassTimer:
        """Return what times the passes of a sequence, and charges its drafts."""
        return PassTimer(self.clock, self._store.counts if self._store else None)

    def place(self, number: int) -> BatchPlace | None:
        """Return the place of a sequence's drafters among others; None where there are none."""
        return None

    def views(self, costs: CostCurve | StreamedCosts) -> tuple[Costs, ...]:
        """Return the costs that drafts are planned by, of each sequence."""
        return (costs,)

    def passes(self, number: int, work: Work) -> float:
        """Return the passes of a sequence with the counts ``work``; of shared ones the part of its tokens."""
        return work.passes

    def together(self, works: Sequence[Work]) -> Work:
        """Return the counts of all sequences; a pass over several of them counts once."""
        return works[0]

    @contextmanager
    def reply(self, number: int, *, streams: bool = True) -> Iterator[None]:
        """See ``SequenceBatch.reply``. Raises BackendError after ``close``."""
        if self._closed:
            raise BackendError("the model was closed")
        if not self._turn.acquire(blocking=False):
            raise ValueError(f"sequence {number} is in a reply already")
        try:
            yield
        finally:
            self._turn.release()

    def close(self) -> None:
        """Begin no more replies."""
        self._closed = True


class SeveralSequences:
    """``count`` sequences in one KV cache. Each runs in a thread of its own; their passes are combined.

    Raises the errors of ``Backend.sequences``. To be closed.
    """

    def __init__(
        self, model: LoadedModel, count: int, cache: CacheConfig, batch_tokens: int, ledger: Ledger
    ) -> None:
        self.clock: Clock = time.perf_counter
        """Times passes, as those who combine them do."""
        self._clocks = [ConversationClock() for _ in range(count)]
        self._store = model.backend.experts
        self._costs: BatchCosts | None = None
        self._counts = StoreCounts(0, 0, 0, 0.0)
        self._passes = 0
        self._shares = [0.0] * count
        self._batch = model.backend.sequences(
            count, cache, batch_tokens=batch_tokens, ledger=ledger, observe=self._passed
        )
        self.forwards = self._batch.forwards

    def timer(self, number: int) -> PassTimer:
        """See ``OneSequence.timer``. A conversation is charged by a clock of its own."""
        return PassTimer(self._clocks[number])

    def place(self, number: int) -> BatchPlace | None:
        """See ``OneSequence.place``."""
        return BatchPlace(number, len(self._clocks), self._clocks[number])

    def views(self, costs: CostCurve | StreamedCosts) -> tuple[Costs, ...]:
        """See ``OneSequence.views``. From now on passes correct the costs."""
        if self._costs is None:
            self._costs = BatchCosts(costs, len(self._clocks))
        return self._costs.views

    def passes(self, number: int, work: Work) -> float:
        """See ``OneSequence.passes``."""
        return self._shares[number]

    def together(self, works: Sequence[Work]) -> Work:
        """See ``OneSequence.together``."""
        every = Work()
        for work in works:
            every = every.with_more(work)
        return every._replace(passes=self._passes)

    def reply(self, number: int, *, streams: bool = True) -> AbstractContextManager[None]:
        """See ``SequenceBatch.reply``."""
        return self._batch.reply(number, streams=streams)

    def close(self) -> None:
        """End the thread that runs passes."""
        self._batch.close()

    def _passed(self, requests: Sequence[PassRequest], seconds: float) -> None:
        """Count a pass, and learn from one that decodes.

        Pieces of prompts, which ask for no rows, say nothing of drafts.
        """
        self._passes += 1
        total = sum(len(request.tokens) for request in requests)
        read = self._read_since_last()
        for request in requests:
            self._shares[request.sequence] += len(request.tokens) / total
        if self._costs and all(
            len(request.rows.resolve(len(request.tokens))) == len(request.tokens) for request in requests
        ):
            self._costs.passed({one.sequence: len(one.tokens) for one in requests}, seconds, read)

    def _read_since_last(self) -> StoreCounts | None:
        """Return what passes read of experts on a disk since the last call; None where none are read."""
        if self._store is None:
            return None
        before, self._counts = self._counts, self._store.counts()
        return self._counts.since(before)
