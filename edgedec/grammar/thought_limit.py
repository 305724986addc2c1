"""A thought that ends: after so many tokens the words that close it are all that may come next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from edgedec.grammar.matcher import GrammarConstraint
    from edgedec.text.thought_walk import ThoughtWalk


class ThoughtLimit:
    """A constraint like ``GrammarConstraint``: the limit on a thought, and what ``form`` permits.

    ``said``: tokens of the reply so far, behind which ``form`` stands. ``size``: tokens of the vocabulary.
    """

    def __init__(
        self, walk: ThoughtWalk, size: int, form: GrammarConstraint | None, said: Sequence[int] = ()
    ) -> None:
        self._walk, self._size, self._form = walk, size, form
        self._places = [walk.along(walk.start, said)]
        self._every = np.packbits(np.ones(size, np.uint8), bitorder="little")

    def permits(self, token: int) -> bool:
        """Whether ``token`` may come next."""
        if closing := self._closing():
            return token == closing[0]
        if token in self._walk.barred(self._places[-1]):
            return False
        return self._form.permits(token) if self._form else 0 <= token < self._size

    def bits(self) -> NDArray[np.uint8]:
        """A bit for each token that may come next; that of id 0 the lowest of the first byte."""
        if closing := self._closing():
            only = np.zeros_like(self._every)
            only[closing[0] // 8] = 1 << closing[0] % 8
            return only
        bits = self._form.bits() if self._form else self._every
        if barred := self._walk.barred(self._places[-1]):
            bits = bits.copy()
            for token in barred:
                bits[token // 8] &= ~np.uint8(1 << token % 8)
        return bits

    def advance(self, token: int) -> bool:
        """Go on behind ``token``; False, and nothing changes, if it may not come next."""
        if not self.permits(token) or (self._form and not self._form.advance(token)):
            return False
        self._places.append(self._walk.after(self._places[-1], token))
        return True

    def back(self, count: int) -> None:
        """Take back the last ``count`` tokens."""
        del self._places[len(self._places) - count :]
        if self._form:
            self._form.back(count)

    def forced(self) -> list[int]:
        """The only tokens that may come next, one after the other; none where there is a choice."""
        if closing := self._closing():
            return closing
        forced = self._form.forced() if self._form else []
        left = self._walk.left(self._places[-1])
        return forced if left is None else forced[:left]

    @property
    def accepts(self) -> bool:
        """Whether the reply may end here."""
        return self._form.accepts if self._form else True

    @property
    def finished(self) -> bool:
        """Whether it has to end here."""
        return self._form.finished if self._form else False

    def _closing(self) -> list[int]:
        place = self._places[-1]
        return self._walk.closing[place.said :] if self._walk.due(place) else []
