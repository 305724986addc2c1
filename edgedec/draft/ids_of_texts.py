"""The ids that a trimmed head computes: those that were chosen, and those of the text."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np

from edgedec.core.rows import Keep

_MOST_ADDED = 1024
"""Most ids of the text that are kept; where there are more, those of before are forgotten."""
_SET_BYTES = 128
"""Bytes of an added id: a number, and its place in a set."""
_IN_USE = 3
"""Arrays of shared ids at once: the latest one, that of a pass, and that of requests for the next."""


class IdsOfTexts:
    """``chosen`` ids (ascending), and ids that are added.

    ``shared``: by conversations whose passes are computed together. Then ids of all their texts are kept, and
    an array that was handed out stays as it is.
    """

    def __init__(self, chosen: Keep, *, shared: bool = False) -> None:
        self._chosen, self._shared = chosen, shared
        self._mask = _mask(chosen)
        """A byte for each id up to the last one: a few tokens are looked up sooner than searched for."""
        self._added: set[int] = set()
        self._room = np.empty(0 if shared else chosen.size + _MOST_ADDED, np.int64)
        """In one place: passes of many shapes hold on to what they kept."""
        self._lock = Lock()
        self.all = chosen
        """The ids to keep now, ascending."""

    def again(self, *, shared: bool = False) -> IdsOfTexts:
        """Return those that were chosen."""
        return IdsOfTexts(self._chosen, shared=shared)

    def begin(self) -> None:
        """Forget the ids of a text, unless they are of others too."""
        if not self._shared:
            self._forget()

    def lacks(self, token: int) -> bool:
        """Return whether a token is not among them."""
        return not (token < len(self._mask) and self._mask[token]) and token not in self._added

    def add(self, tokens: Sequence[int]) -> None:
        """Keep ``tokens`` too."""
        with self._lock:
            if fresh := sorted({token for token in tokens if self.lacks(token)}):
                self._add(fresh)

    def nbytes(self) -> int:
        arrays = _IN_USE if self._shared else 1
        size = self._chosen.size + arrays * (self._chosen.size + _MOST_ADDED)
        return self._chosen.itemsize * size + len(self._mask) + _SET_BYTES * _MOST_ADDED

    def _add(self, tokens: list[int]) -> None:
        if len(self._added) + len(tokens) > _MOST_ADDED:
            self._forget()
            tokens = tokens[:_MOST_ADDED]
        self._added.update(tokens)
        ids = np.array(tokens, np.int64)
        merged = np.insert(self.all, np.searchsorted(self.all, ids), ids)
        if not self._shared:
            self._room[: merged.size] = merged
            merged = self._room[: merged.size]
        self.all = merged

    def _forget(self) -> None:
        self.all = self._chosen
        self._added.clear()


def _mask(ids: Keep) -> bytes:
    inside = np.zeros(int(ids[-1]) + 1, np.bool_)
    inside[ids] = True
    return inside.tobytes()
