"""A base class for forwards: the model's facts, the bookkeeping of the cache, and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.checks import check_keep
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Capabilities, Forward, Sink, Source
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Keep, Rows
from edgedec.memory import CacheBook


class CacheForward:
    """The bookkeeping part of ``Forward``.

    ``book`` records which slots are taken. Methods of capabilities that a subclass does not override raise
    UnsupportedError. A subclass adds ``extend``, ``keep_path`` and ``nbytes``.
    """

    def __init__(
        self, spec: ModelSpec, caps: Capabilities, book: CacheBook, ledger: Ledger | None = None
    ) -> None:
        self._spec = spec
        self._caps = caps
        self._book = book
        self._ledger: Ledger = Ledger() if ledger is None else ledger
        self._kept: Keep | None = None

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def caps(self) -> Capabilities:
        return self._caps

    @property
    def ledger(self) -> Ledger:
        """See ``Forward.ledger``."""
        return self._ledger

    @property
    def capacity(self) -> int:
        """Most tokens that the cache holds."""
        return self._book.capacity

    @property
    def length(self) -> int:
        """See ``Forward.length``."""
        return self._book.length

    def reachable(self, length: int) -> int:
        """See ``Forward.reachable``."""
        return self._book.reachable(length)

    @property
    def resident(self) -> int:
        """See ``Forward.resident``."""
        return self._book.slots

    @property
    def evicted(self) -> range:
        """See ``Forward.evicted``."""
        return self._book.evicted

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        self._book.rewind(length)

    @property
    def peeked(self) -> tuple[int, ...]:
        """See ``Forward.peeked``."""
        return ()

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
        self._refuse("no tokens can be drafted after a part of its layers")

    @property
    def cache_layout(self) -> str:
        """See ``Forward.cache_layout``."""
        self._refuse("its KV cache cannot be saved")

    def cache_bytes(self, length: int) -> int:
        """See ``Forward.cache_bytes``."""
        self._refuse("its KV cache cannot be saved")

    def write_cache(self, sink: Sink, length: int) -> None:
        """See ``Forward.write_cache``."""
        self._refuse("its KV cache cannot be saved")

    def read_cache(self, source: Source, length: int) -> None:
        """See ``Forward.read_cache``."""
        self._refuse("its KV cache cannot be restored")

    def copy_prefix(self, source: Forward, length: int) -> int:
        """See ``Forward.copy_prefix``."""
        self._refuse("no tokens can be copied into its KV cache")

    def evict(self, first: int, count: int) -> None:
        """See ``Forward.evict``."""
        self._refuse("no tokens can leave its KV cache")

    def attention(self, tokens: Sequence[int]) -> FloatArray:
        """See ``Forward.attention``."""
        self._refuse("it does not report attention")

    @property
    def lent(self) -> Mapping[str, NDArray[np.float16]]:
        """See ``Forward.lent``."""
        self._refuse("no other graph can read its KV cache")

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """See ``Forward.select``."""
        self._refuse("no tokens can leave its KV cache")

    def _check_rows(self, rows: Rows) -> None:
        """Raises UnsupportedError for rows that the capabilities lack, ValueError for wrong ids to keep."""
        if rows.taps:
            if not self._caps.taps:
                self._refuse("it hands out no hidden states")
            if not set(rows.taps) <= set(self._caps.taps):
                raise ValueError(f"hidden states of layers {rows.taps}: there are {self._caps.taps}")
        if rows.keep is None or rows.keep is self._kept:
            return
        if not self._caps.trims:
            self._refuse("its head cannot be trimmed")
        check_keep(rows.keep, self._spec.vocab_size)
        self._kept = rows.keep

    def _refuse(self, why: str) -> NoReturn:
        raise UnsupportedError(f"{self._spec.name}: {why}")
