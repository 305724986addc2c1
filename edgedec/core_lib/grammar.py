"""The grammar of a reply, as the core calls it."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import PYFUNCTYPE, c_int, c_int32, c_int64, c_void_p
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core_lib.binding import ints_at
from edgedec.core_lib.calls import Calls


class ReplyGrammar(Protocol):
    """The grammar of a reply, at a place of it. The methods may raise."""

    def follow(self, tokens: Sequence[int]) -> bool:
        """Go to behind ``tokens``, which follow the committed ones and may be taken back.

        They begin with those of the call before, or are some of these. Returns whether nothing may come next.
        """

    def forced(self) -> Sequence[int]:
        """Return the tokens that come next for certain, up to the first choice."""

    def permits(self, token: int) -> bool:
        """Whether ``token`` may come next; cheaper than ``bits``."""

    def bits(self) -> NDArray[np.uint8]:
        """Return a bit for each token, that of id 0 the lowest of the first byte; 1: it may come next."""


class GrammarCalls(Calls):
    """The functions of a grammar for the core."""

    def __init__(self, grammar: ReplyGrammar, vocabulary: int) -> None:
        super().__init__()
        self._grammar, self._vocabulary = grammar, vocabulary
        self._mask: NDArray[np.uint8] | None = None
        """The latest one; it stays until the next."""
        self.struct = CGrammar(
            _FOLLOW(self.keeping(self._follow, -1)), _FORCED(self.keeping(self._forced, -1)),
            _PERMITS(self.keeping(grammar.permits, 0)), _BITS(self.keeping(self._bits, None)),
        )  # fmt: skip

    def _follow(self, tokens: int, count: int) -> bool:
        return self._grammar.follow(ints_at(tokens, count))

    def _forced(self, tokens: int, most: int) -> int:
        found = self._grammar.forced()[:most]
        ctypes.memmove(tokens, array("i", found).tobytes(), 4 * len(found))
        return len(found)

    def _bits(self) -> int:
        self._mask = mask = np.ascontiguousarray(self._grammar.bits(), np.uint8)
        if 8 * mask.size < self._vocabulary:
            raise ValueError(f"a mask of {8 * mask.size} bits for {self._vocabulary} tokens")
        return mask.ctypes.data


_FOLLOW = PYFUNCTYPE(c_int, c_void_p, c_int64)
_FORCED = PYFUNCTYPE(c_int, c_void_p, c_int64)
_PERMITS = PYFUNCTYPE(c_int, c_int32)
_BITS = PYFUNCTYPE(c_void_p)


class CGrammar(ctypes.Structure):
    """A ``edgedec_core_grammar``."""

    _fields_ = (("follow", _FOLLOW), ("forced", _FORCED), ("permits", _PERMITS), ("bits", _BITS))
