"""The ids that occurred in a sequence, kept as tokens are committed: all that a repetition penalty reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_FIRST = 256
"""Ids that fit at first; then twice as many, and so on."""


class Occurred:
    """A growing set of ids, in the order in which they first occurred.

    >>> seen = Occurred([5, 7, 5])
    >>> seen.add(9)
    >>> seen.ids().tolist(), 7 in seen, 8 in seen
    ([5, 7, 9], True, False)
    >>> seen.after([8, 5, 8]).ids().tolist(), 8 in seen
    ([5, 7, 9, 8], False)
    """

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        unique = list(dict.fromkeys(tokens))
        self._known = set(unique)
        self._count = len(unique)
        self._buffer = np.empty(max(_FIRST, 2 * self._count), np.int64)
        self._buffer[: self._count] = unique

    @staticmethod
    def of(history: Occurred | Sequence[int]) -> Occurred:
        """``history`` itself, or the ids of a sequence of tokens."""
        return history if isinstance(history, Occurred) else Occurred(history)

    def __contains__(self, token: object) -> bool:
        return token in self._known

    def among(self, tokens: Sequence[int]) -> set[int]:
        """Return those of ``tokens`` that occurred."""
        return self._known.intersection(tokens)

    def ids(self) -> NDArray[np.int64]:
        """The ids i64[n], each once. Not to be changed."""
        return self._buffer[: self._count]

    def add(self, token: int) -> None:
        """Note that ``token`` was committed."""
        if token in self._known:
            return
        self._known.add(token)
        if self._count == self._buffer.size:
            self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])
        self._buffer[self._count] = token
        self._count += 1

    def after(self, tokens: Sequence[int]) -> Occurred:
        """The ids with those of ``tokens``, which may still be taken back; this set stays as it is."""
        new = [token for token in dict.fromkeys(tokens) if token not in self]
        return _After(self, new) if new else self


class _After(Occurred):
    """A few more ids than another set has."""

    def __init__(self, base: Occurred, new: list[int]) -> None:
        self._base = base
        self._new = new

    def __contains__(self, token: object) -> bool:
        return token in self._new or token in self._base

    def among(self, tokens: Sequence[int]) -> set[int]:
        return self._base.among(tokens).union(token for token in self._new if token in tokens)

    def ids(self) -> NDArray[np.int64]:
        return np.concatenate([self._base.ids(), self._new])

    def add(self, token: int) -> None:
        raise TypeError("add tokens to the set of committed ids, not to a view of it")
