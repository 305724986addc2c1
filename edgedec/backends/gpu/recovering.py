"""A model on a GPU, and the same one on the CPU that goes on where the GPU is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from edgedec.backends.backend import DEFAULT_CACHE, Backend, ExpertSlots, Observe, SequenceBatch, unobserved
from edgedec.backends.delegating import DelegatingForward
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import DeviceLostError
from edgedec.core.forward import Capabilities, Forward, Sink, Source
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.progress import Notice
from edgedec.core.rows import LAST_ROW, HeadRows, Keep, Rows


class RecoveringModel:
    """The ``Backend`` of ``first``, and once its device is lost that of ``spare``, which is opened then.

    ``notice`` hears of it.
    """

    def __init__(self, first: Backend, spare: Callable[[], Backend], notice: Notice) -> None:
        self._now, self._spare, self._notice = first, spare, notice
        self._lost = False

    @property
    def spec(self) -> ModelSpec:
        return self._now.spec

    @property
    def caps(self) -> Capabilities:
        return self._now.caps

    @property
    def experts(self) -> ExpertSlots | None:
        return self._now.experts

    @property
    def weight_bytes(self) -> int:
        return self._now.weight_bytes

    @property
    def runtime(self) -> str:
        return self._now.runtime

    @property
    def threads(self) -> int:
        return self._now.threads

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
        """See ``Backend.sequences``."""
        return self._now.sequences(count, cache, batch_tokens=batch_tokens, ledger=ledger, observe=observe)

    def replacement(self, error: DeviceLostError) -> Backend:
        """Return the spare model, opened once. Raises the errors of opening it."""
        if not self._lost:
            exact = self._now.caps.exact
            self._now = self._spare()
            self._lost = True
            bits = "" if exact else ", whose bits are others"
            self._notice(f"note: {error}; the model goes on on the CPU{bits}")
        return self._now


class RecoveringForward(DelegatingForward):
    """The ``Forward`` of a device, until that is lost; then one of the model's replacement.

    The call that finds the device lost raises its DeviceLostError with ``replaced``: the cache is empty then.
    """

    def __init__(self, now: Forward, model: RecoveringModel, cache: CacheConfig) -> None:
        super().__init__(now)
        self._model = model
        # Passes stay as long as they were: memory was planned for them.
        self._cache = CacheConfig(now.capacity, cache.kv, now.caps.max_pass)

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """See ``Forward.extend``."""
        with self._recovery():
            return self._now.extend(tokens, parents=parents, rows=rows)

    def peek(
        self,
        tokens: Sequence[int],
        *,
        exit: int,
        parents: Sequence[int] | None = None,
        rows: Rows = LAST_ROW,
        keep: Keep | None = None,
        resume: int | None = None,
    ) -> HeadRows:
        """See ``Forward.peek``."""
        with self._recovery():
            return super().peek(tokens, exit=exit, parents=parents, rows=rows, keep=keep, resume=resume)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``."""
        with self._recovery():
            self._now.keep_path(nodes)

    def write_cache(self, sink: Sink, length: int) -> None:
        """See ``Forward.write_cache``."""
        with self._recovery():
            self._now.write_cache(sink, length)

    def read_cache(self, source: Source, length: int) -> None:
        """See ``Forward.read_cache``."""
        with self._recovery():
            self._now.read_cache(source, length)

    def copy_prefix(self, source: Forward, length: int) -> int:
        """See ``Forward.copy_prefix``. Nothing is copied where one of the two lost its device."""
        inner = source._now if isinstance(source, RecoveringForward) else source
        if type(inner) is not type(self._now):
            self._now.rewind(0)
            return 0
        with self._recovery():
            return super().copy_prefix(source, length)

    @contextmanager
    def _recovery(self) -> Iterator[None]:
        try:
            yield
        except DeviceLostError as error:
            ledger = self._now.ledger
            self._now = self._model.replacement(error).forward(self._cache, ledger)
            error.replaced = True
            raise
