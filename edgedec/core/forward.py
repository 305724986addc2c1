"""The seam between the runtime and whatever computes logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Rows


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, checked before a token is spent."""

    max_pass: int
    """Most tokens one ``extend`` accepts (longer prompts are fed in pieces)."""
    trees: bool
    """Whether ``parents`` other than a chain is accepted."""
    full_rows: bool
    """Whether ``logits`` can be requested."""
    exact: bool
    """Whether a token's results are the same bits whatever passes it and those before it came in."""


class Forward(Protocol):
    """A model with a cache. One truth lives outside: the committed token sequence; this cache follows it."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def caps(self) -> Capabilities: ...

    @property
    def capacity(self) -> int:
        """Most tokens the cache can hold."""
        ...

    @property
    def length(self) -> int:
        """Tokens resident in the cache (for ``Evicting`` ones, the position of the next token)."""
        ...

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """Run one pass over ``tokens`` and append them to the cache in the order given.

        ``parents[i]`` is the index in this pass of token i's parent, or -1 for a child of the last resident
        token; None means a chain. After a pass over a tree the cache must be settled by ``keep_path`` (or
        ``rewind``) before the next ``extend``. Raises ContextFullError when it does not fit, ValueError on
        malformed parents or rows, UnsupportedError for a tree when ``caps`` has no ``trees``.
        """
        ...

    def reachable(self, length: int) -> int:
        """How many tokens ``rewind(length)`` leaves: ``length``, or 0 where the cache has given up what the
        next token would see (layers with a window keep the newest tokens alone).
        """
        ...

    def rewind(self, length: int) -> None:
        """Forget every token from position ``reachable(length)`` on. Raises ValueError beyond ``length``."""
        ...

    def keep_path(self, nodes: Sequence[int]) -> None:
        """Of the last pass keep only ``nodes`` (indices into it, a root path), compacted in that order."""
        ...

    def nbytes(self) -> dict[str, int]:
        """Bytes held, by what holds them (``weights``, ``kv_cache``, ...)."""
        ...


class Sink(Protocol):
    """What bytes are written to, a file for one."""

    def write(self, data: memoryview, /) -> object: ...


class Source(Protocol):
    """What bytes are read from."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill ``buffer``; fewer bytes only at the end."""
        ...


@runtime_checkable
class PortableCache(Protocol):
    """A ``Forward`` whose cache can outlive its process: slots are bytes that mean the same in another one.

    Optional. Whatever has no such cache feeds the tokens again.
    """

    @property
    def cache_layout(self) -> str:
        """What a slot holds, in words; a cache can be read where model and layout are the same."""
        ...

    def cache_bytes(self, length: int) -> int:
        """Bytes of ``length`` slots, as written."""
        ...

    def write_cache(self, sink: Sink, length: int) -> None:
        """Write the slots of the first ``length`` tokens. Raises ValueError unless so many are resident, and
        while a tree waits to be settled, or where a rewind would not leave as many.
        """
        ...

    def read_cache(self, source: Source, length: int) -> None:
        """Hold ``length`` tokens, whose slots come from ``source``, in place of what was held.

        Raises ContextFullError when they do not fit, EOFError when there are not as many bytes, BadFileError
        when they cannot be right; the cache is empty then.
        """
        ...


@runtime_checkable
class Evicting(Protocol):
    """A ``Forward`` whose cache can do without tokens in its midst: what it computes then is not exact.

    Optional. ``length`` counts on past those that left, and ``capacity`` bounds the resident ones alone.
    """

    @property
    def resident(self) -> int:
        """Slots taken: ``length`` less the tokens that have left."""
        ...

    @property
    def evicted(self) -> range:
        """Positions from which tokens have left, all of them unless some stayed (``Selecting``); empty after
        a rewind to before them. ``rewind`` to one of these positions, but the first, is not possible.
        """
        ...

    def evict(self, first: int, count: int) -> None:
        """Let ``count`` more tokens go, those behind the first ``first`` of the cache. What stays keeps its
        keys, values and position. Raises ValueError unless so many are resident, while a tree waits to be
        settled, for another ``first`` than that of tokens that have left, and for a part of those that stayed
        there.
        """
        ...


@runtime_checkable
class Selecting(Evicting, Protocol):
    """An ``Evicting`` one that says what attention falls on, and whose heads can keep tokens of their own.

    Optional.
    """

    def attention(self, tokens: Sequence[int]) -> FloatArray:
        """Feed ``tokens``, a chain, and say what they looked at: f32[layers, kv heads, slots], of the slots
        resident before and of their own. Each is the greatest weight that a query of these tokens, of a head
        that reads that key, gave it. Raises what ``extend`` does, and UnsupportedError for a bundle of an
        earlier version.
        """
        ...

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """Of the slots [first, end) every head keeps its own, kept[layers, kv heads, n], ascending; these and
        what is behind ``end`` move down, in that order. Raises ValueError where ``evict`` does, and for slots
        that are not ascending within [first, end).
        """
        ...
