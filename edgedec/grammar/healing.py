"""The constraint of a reply that begins with the text that its prompt ended with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from edgedec.text.tokenizer import Tokenizer


class Healing:
    """A constraint like ``GrammarConstraint``: the tokens that may spell ``held``, the bytes taken back.

    A token is permitted whose bytes begin with those that are left, or are their beginning, so that the rest
    binds the next ones. Behind the last byte every token is. ``size``: tokens of the vocabulary.
    """

    accepts = True
    finished = False

    def __init__(self, tokenizer: Tokenizer, size: int, held: bytes) -> None:
        self._tokenizer, self._size = tokenizer, size
        self._places = [held]
        self._known: dict[bytes, frozenset[int]] = {}
        """Tokens that may come next, by the bytes that are left."""
        self._every = np.packbits(np.ones(size, np.uint8), bitorder="little")

    @property
    def left(self) -> bytes:
        """The bytes that are not spelled yet."""
        return self._places[-1]

    def permits(self, token: int) -> bool:
        """Whether ``token`` may come next."""
        return token in self._tokens(self.left) if self.left else 0 <= token < self._size

    def bits(self) -> NDArray[np.uint8]:
        """A bit for each token that may come next; that of id 0 the lowest of the first byte."""
        if not self.left:
            return self._every
        allowed = np.zeros(self._size, np.uint8)
        allowed[[*self._tokens(self.left)]] = 1
        return np.packbits(allowed, bitorder="little")

    def advance(self, token: int) -> bool:
        """Go on behind ``token``; False, and nothing changes, if it may not come next."""
        if not self.permits(token):
            return False
        self._places.append(self.left[len(self._tokenizer.token_bytes(token)) :])
        return True

    def back(self, count: int) -> None:
        """Take back the last ``count`` tokens."""
        del self._places[len(self._places) - count :]

    def forced(self) -> list[int]:
        """The only token that may come next; none where there is a choice."""
        found = self._tokens(self.left) if self.left else ()
        return [*found] if len(found) == 1 else []

    def _tokens(self, left: bytes) -> frozenset[int]:
        """Return the tokens that may spell ``left``, or its beginning where others can spell the rest."""
        if (found := self._known.get(left)) is None:
            ids = {token for token in self._tokenizer.beginning_with(left) if token < self._size}
            for end in range(1, len(left)):
                token = self._tokenizer.id_of(left[:end])
                if token is not None and token < self._size and self._tokens(left[end:]):
                    ids.add(token)
            found = self._known[left] = frozenset(ids)
        return found
