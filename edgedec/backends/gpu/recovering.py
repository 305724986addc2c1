"""A model on a GPU, and the same one on the CPU that goes on where the GPU is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TypeVar

from edgedec.backends.backend import (
    DEFAULT_CACHE,
    Backend,
    Observe,
    PassRequest,
    SequenceBatch,
    unobserved,
)
from edgedec.backends.checks import check_sequences
from edgedec.backends.gpu.turns import SequencesInTurn, Turn
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import DeviceLostError, UnsupportedError
from edgedec.core.forward import Copying, Forward, Peeking, Portable, Sink, Source
from edgedec.core.ledger import Ledger
from edgedec.core.progress import Notice
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import LAST_ROW, HeadRows, Parents, Rows

Part = TypeVar("Part")
"""A part of a forward."""


class RecoveringModel(Backend):
    """The ``Backend`` of ``first``, and once its device is lost that of ``spare``, which is opened then.

    ``notice`` hears of it. ``sequences``: most conversations at once.
    """

    def __init__(
        self, first: Backend, spare: Callable[[], Backend], notice: Notice, sequences: int = 1
    ) -> None:
        self._spare, self._notice = spare, notice
        self._lost = False
        self._use(first)
        self.caps = replace(first.caps, sequences=sequences)

    def _use(self, now: Backend) -> None:
        self._now = now
        self.spec, self.caps, self.threads = now.spec, now.caps, now.threads
        self.weight_bytes, self.experts = now.weight_bytes, now.experts

    @property
    def runtime(self) -> str:
        """See ``Backend.runtime``."""
        return self._now.runtime

    def device_bytes(self, cache: CacheConfig = DEFAULT_CACHE) -> dict[str, int]:
        """See ``Backend.device_bytes``."""
        return self._now.device_bytes(cache)

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> Forward:
        """See ``Backend.forward``."""
        return RecoveringForward(self._now.forward(cache, ledger), self, cache)

    def sequences(
        self,
        count: int,
        cache: CacheConfig = DEFAULT_CACHE,
        *,
        batch_tokens: int,
        ledger: Ledger | None = None,
        observe: Observe = unobserved,
    ) -> SequenceBatch:
        """See ``Backend.sequences``. On a device passes run one after another, over a cache for each."""
        if self._lost:
            return self._now.sequences(
                count, cache, batch_tokens=batch_tokens, ledger=ledger, observe=observe
            )
        check_sequences(self.spec, self.caps, count)
        turn, own = Turn(), ledger or Ledger()
        forwards = tuple(
            RecoveringForward(self._now.forward(cache, own), self, cache, InTurn(number, turn, observe))
            for number in range(count)
        )
        return SequencesInTurn(forwards, turn)

    def replacement(self, error: DeviceLostError) -> Backend:
        """Return the spare model, opened once. Raises the errors of opening it."""
        if not self._lost:
            exact = self._now.caps.exact
            self._use(self._spare())
            self._lost = True
            bits = "" if exact else ", whose bits are others"
            self._notice(f"note: {error}; the model goes on on the CPU{bits}")
        return self._now


@dataclass(frozen=True, slots=True)
class InTurn:
    """The place of a sequence among others on one device; ``observe`` sees its passes."""

    number: int
    turn: Turn
    observe: Observe


class RecoveringForward(Forward, Peeking, Portable, Copying):
    """The ``Forward`` of a device, until that is lost; then one of the model's replacement.

    The call that finds the device lost raises its DeviceLostError with ``replaced``: the cache is empty then.

    ``among``: the place among others, whose drafters have neither exits nor hidden states.
    """

    def __init__(
        self, now: Forward, model: RecoveringModel, cache: CacheConfig, among: InTurn | None = None
    ) -> None:
        self._among = among
        self._turn: AbstractContextManager[None] = among.turn if among else nullcontext()
        self._use(now)
        self._model = model
        # Passes stay as long as they were: memory was planned for them.
        self._cache = CacheConfig(now.capacity, cache.kv, now.caps.max_pass)

    def _use(self, now: Forward) -> None:
        self._now = now
        self.spec, self.ledger, self.capacity = now.spec, now.ledger, now.capacity
        self.caps = replace(now.caps, taps=(), exits=()) if self._among else now.caps

    @property
    def length(self) -> int:
        return self._now.length

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``."""
        with self._recovery():
            start = time.perf_counter()
            found = self._now.extend(tokens, parents=parents, rows=rows)
            if self._among:
                request = PassRequest(self._among.number, tokens, parents, rows)
                self._among.observe([request], time.perf_counter() - start)
            return found

    @property
    def portable(self) -> Portable | None:
        return None if self._now.portable is None else self

    @property
    def copying(self) -> Copying | None:
        return None if self._now.copying is None else self

    @property
    def peeked(self) -> tuple[int, ...]:
        """See ``Peeking.peeked``."""
        return () if self._now.peeking is None else self._now.peeking.peeked

    def peek(
        self,
        tokens: Sequence[int],
        *,
        exit: int,
        resume: int | None = None,
        parents: Parents = None,
        rows: Rows = LAST_ROW,
    ) -> HeadRows:
        """See ``Peeking.peek``."""
        inner = self._part(self._now.peeking)
        with self._recovery():
            return inner.peek(tokens, exit=exit, resume=resume, parents=parents, rows=rows)

    def reachable(self, length: int) -> int:
        """See ``KvCache.reachable``."""
        with self._turn:
            return self._now.reachable(length)

    def rewind(self, length: int) -> None:
        """See ``KvCache.rewind``."""
        with self._recovery():
            self._now.rewind(length)

    def nbytes(self) -> dict[str, int]:
        """See ``KvCache.nbytes``."""
        return self._now.nbytes()

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``KvCache.keep_path``."""
        with self._recovery():
            self._now.keep_path(nodes)

    @property
    def cache_layout(self) -> str:
        """See ``Portable.cache_layout``."""
        return self._part(self._now.portable).cache_layout

    def cache_bytes(self, length: int) -> int:
        """See ``Portable.cache_bytes``."""
        return self._part(self._now.portable).cache_bytes(length)

    def write_cache(self, sink: Sink, length: int) -> None:
        """See ``Portable.write_cache``."""
        inner = self._part(self._now.portable)
        with self._recovery():
            inner.write_cache(sink, length)

    def read_cache(self, source: Source, length: int) -> None:
        """See ``Portable.read_cache``."""
        inner = self._part(self._now.portable)
        with self._recovery():
            inner.read_cache(source, length)

    def copy_prefix(self, source: Forward, length: int) -> int:
        """See ``Copying.copy_prefix``. Nothing is copied where one of the two lost its device."""
        inner = source._now if isinstance(source, RecoveringForward) else source
        if type(inner) is not type(self._now):
            self._now.rewind(0)
            return 0
        copying = self._part(self._now.copying)
        with self._recovery():
            return copying.copy_prefix(inner, length)

    def _part(self, part: Part | None) -> Part:
        """Return a part that the device had. Raises UnsupportedError where its replacement lacks it."""
        if part is None:
            raise UnsupportedError(f"{self.spec.name} cannot do this any more: its device was lost")
        return part

    @contextmanager
    def _recovery(self) -> Iterator[None]:
        with self._turn:
            try:
                yield
            except DeviceLostError as error:
                ledger = self._now.ledger
                self._use(self._model.replacement(error).forward(self._cache, ledger))
                error.replaced = True
                raise
