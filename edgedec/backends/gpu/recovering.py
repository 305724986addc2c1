"""A model on a GPU, and the same one on the CPU that goes on where the GPU is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from edgedec.backends.backend import DEFAULT_CACHE, Backend, SequenceBatch
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import DeviceLostError, UnsupportedError
from edgedec.core.forward import Copying, Forward, Peeking, Portable, Sink, Source
from edgedec.core.ledger import Ledger
from edgedec.core.progress import Notice
from edgedec.core.rows import LAST_ROW, HeadRows, Parents, Rows

Part = TypeVar("Part")
"""A part of a forward."""


class RecoveringModel(Backend):
    """The ``Backend`` of ``first``, and once its device is lost that of ``spare``, which is opened then.

    ``notice`` hears of it.
    """

    def __init__(self, first: Backend, spare: Callable[[], Backend], notice: Notice) -> None:
        self._spare, self._notice = spare, notice
        self._lost = False
        self._use(first)

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

    def sequences(self, *given: Any, **named: Any) -> SequenceBatch:
        """See ``Backend.sequences``."""
        return self._now.sequences(*given, **named)

    def replacement(self, error: DeviceLostError) -> Backend:
        """Return the spare model, opened once. Raises the errors of opening it."""
        if not self._lost:
            exact = self._now.caps.exact
            self._use(self._spare())
            self._lost = True
            bits = "" if exact else ", whose bits are others"
            self._notice(f"note: {error}; the model goes on on the CPU{bits}")
        return self._now


class RecoveringForward(Forward, Peeking, Portable, Copying):
    """The ``Forward`` of a device, until that is lost; then one of the model's replacement.

    The call that finds the device lost raises its DeviceLostError with ``replaced``: the cache is empty then.
    """

    def __init__(self, now: Forward, model: RecoveringModel, cache: CacheConfig) -> None:
        self._use(now)
        self._model = model
        # Passes stay as long as they were: memory was planned for them.
        self._cache = CacheConfig(now.capacity, cache.kv, now.caps.max_pass)

    def _use(self, now: Forward) -> None:
        self._now = now
        self.spec, self.caps, self.ledger, self.capacity = now.spec, now.caps, now.ledger, now.capacity

    @property
    def length(self) -> int:
        return self._now.length

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``."""
        with self._recovery():
            return self._now.extend(tokens, parents=parents, rows=rows)

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
        return self._now.reachable(length)

    def rewind(self, length: int) -> None:
        """See ``KvCache.rewind``."""
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
        try:
            yield
        except DeviceLostError as error:
            ledger = self._now.ledger
            self._use(self._model.replacement(error).forward(self._cache, ledger))
            error.replaced = True
            raise
