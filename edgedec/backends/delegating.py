"""A forward that passes every call on to another one, which may be replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.forward import Capabilities, Forward, Sink, Source
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Keep, Rows


class DelegatingForward:
    """The ``Forward`` that does as ``_now`` does."""

    def __init__(self, now: Forward) -> None:
        self._now = now

    @property
    def spec(self) -> ModelSpec:
        return self._now.spec

    @property
    def caps(self) -> Capabilities:
        return self._now.caps

    @property
    def ledger(self) -> Ledger:
        return self._now.ledger

    @property
    def capacity(self) -> int:
        return self._now.capacity

    @property
    def length(self) -> int:
        return self._now.length

    @property
    def resident(self) -> int:
        return self._now.resident

    @property
    def evicted(self) -> range:
        return self._now.evicted

    @property
    def lent(self) -> Mapping[str, NDArray[np.float16]]:
        """See ``Forward.lent``."""
        return self._now.lent

    @property
    def peeked(self) -> tuple[int, ...]:
        return self._now.peeked

    @property
    def cache_layout(self) -> str:
        return self._now.cache_layout

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """See ``Forward.extend``."""
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
        return self._now.peek(tokens, exit=exit, parents=parents, rows=rows, keep=keep, resume=resume)

    def reachable(self, length: int) -> int:
        """See ``Forward.reachable``."""
        return self._now.reachable(length)

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        self._now.rewind(length)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``."""
        self._now.keep_path(nodes)

    def nbytes(self) -> dict[str, int]:
        """See ``Forward.nbytes``."""
        return self._now.nbytes()

    def cache_bytes(self, length: int) -> int:
        """See ``Forward.cache_bytes``."""
        return self._now.cache_bytes(length)

    def write_cache(self, sink: Sink, length: int) -> None:
        """See ``Forward.write_cache``."""
        self._now.write_cache(sink, length)

    def read_cache(self, source: Source, length: int) -> None:
        """See ``Forward.read_cache``."""
        self._now.read_cache(source, length)

    def copy_prefix(self, source: Forward, length: int) -> int:
        """See ``Forward.copy_prefix``. ``source`` may delegate, too."""
        inner = source._now if isinstance(source, DelegatingForward) else source
        return self._now.copy_prefix(inner, length)

    def evict(self, first: int, count: int) -> None:
        """See ``Forward.evict``."""
        self._now.evict(first, count)

    def attention(self, tokens: Sequence[int]) -> FloatArray:
        """See ``Forward.attention``."""
        return self._now.attention(tokens)

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """See ``Forward.select``."""
        self._now.select(first, end, kept)
