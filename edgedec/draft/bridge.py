"""Bridges between the tokens of a draft model and the target's, which the core has: kernels/core/draft.

Tokenizers are Python's, and called back.
"""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Mapping, Sequence
from ctypes import PYFUNCTYPE, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_void_p
from typing import TYPE_CHECKING

from edgedec.core_lib.binding import INT, LONG, POINTER, Functions
from edgedec.core_lib.calls import CalledBack, Calls
from edgedec.core_lib.draft_room import ints
from edgedec.core_lib.library import error_of

if TYPE_CHECKING:
    from edgedec.text.tokenizer import Tokenizer

_NONE, _FAILED = -1, 1
_CORE = Functions(
    "edgedec_core_bridge_",
    same_new=(POINTER, LONG),
    text_new=(POINTER, POINTER),
    free=(None, POINTER),
    begin=(INT, POINTER, POINTER, LONG, LONG),
    commit=(INT, POINTER, POINTER, LONG),
    read=(LONG, POINTER, POINTER),
    bytes=(LONG, POINTER),
)
_PIECE = PYFUNCTYPE(c_int, c_int32, c_void_p)
_ENCODE = PYFUNCTYPE(c_int, c_void_p, c_int64, c_void_p)
_TO_TARGET = PYFUNCTYPE(c_int32, c_int32)


class Bridge(CalledBack):
    """Follows the target's committed tokens, and translates in both directions: a ``handle`` of the core.

    ``calls``: those of Python's functions that it calls back.
    """

    def __init__(self, handle: int, calls: Calls) -> None:
        self.handle, self.calls = handle, calls
        weakref.finalize(self, _CORE.free, handle)

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """Start a sequence whose first ``kept`` tokens are those of the one before."""
        self._check(_CORE.begin(self.handle, ints(tokens), len(tokens), kept))

    def commit(self, tokens: Sequence[int]) -> None:
        """Append tokens to the committed sequence."""
        self._check(_CORE.commit(self.handle, ints(tokens), len(tokens)))

    def read(self) -> list[int]:
        """Return the committed sequence in the drafter's ids; nothing if it has no such ids."""
        ids = c_void_p()
        count = self._check(_CORE.read(self.handle, byref(ids)))
        return (c_int32 * count).from_address(ids.value)[:] if count and ids.value else []

    def nbytes(self) -> int:
        """Return the bytes held."""
        return int(_CORE.bytes(self.handle))

    def _check(self, outcome: int) -> int:
        self.calls.raise_kept()
        if outcome < 0:
            raise error_of(-outcome)
        return outcome


class SameVocabulary(Bridge):
    """Ids mean the same on both sides. ``size``: ids that both models have; some have more, as padding."""

    def __init__(self, size: int) -> None:
        super().__init__(_CORE.same_new(size), Calls())


class TextBridge(Bridge):
    """Between vocabularies that share text alone.

    ``controls`` maps the target's control tokens to the drafter's of the same role; ``opening`` has the
    first tokens of the drafter's sequences. Control tokens of the target that have no counterpart are left
    out.
    """

    def __init__(
        self,
        target: Tokenizer,
        draft: Tokenizer,
        controls: Mapping[int, int],
        *,
        draft_size: int,
        opening: Sequence[int] = (),
    ) -> None:
        self.opening = len(opening)
        """Tokens that begin each of the drafter's sequences, and that no text of the target's makes."""
        calls = Calls()
        back = {mine: theirs for theirs, mine in reversed(list(controls.items()))}

        def to_target(token: int) -> int:
            piece = draft.token_bytes(token)
            theirs = target.id_of(piece) if piece else back.get(token)
            return _NONE if theirs is None else theirs

        self._texts = texts = _CTexts(
            _codec(target, calls), _codec(draft, calls), _TO_TARGET(calls.keeping(to_target, _NONE)),
            draft_size, len(controls), len(opening), ints(controls), ints(controls.values()),
            ints(opening),
        )  # fmt: skip
        super().__init__(_CORE.text_new(byref(texts)), calls)


class _CList(Structure):
    _fields_ = (("data", c_char_p), ("size", c_int64))


class _CCodec(Structure):
    _fields_ = (("piece", _PIECE), ("encode", _ENCODE))


class _CTexts(Structure):
    _fields_ = (
        ("target", _CCodec),
        ("draft", _CCodec),
        ("to_target", _TO_TARGET),
        ("draft_size", c_int64),
        ("controls", c_int64),
        ("opening_count", c_int64),
        ("controls_theirs", c_char_p),
        ("controls_mine", c_char_p),
        ("opening", c_char_p),
    )


def _codec(tokenizer: Tokenizer, calls: Calls) -> _CCodec:
    """The functions of a tokenizer. Each answer stays until the next one."""
    answer: list[_CList] = []

    def give(place: int, data: bytes, size: int) -> int:
        answer[:] = [_CList(data, size)]
        ctypes.memmove(place, byref(answer[0]), ctypes.sizeof(_CList))
        return 0

    def piece(token: int, place: int) -> int:
        found = tokenizer.token_bytes(token)
        return give(place, found, len(found))

    def encode(text: int, size: int, place: int) -> int:
        ids = tokenizer.encode_inside(ctypes.string_at(text, size).decode())
        return give(place, array("i", ids).tobytes(), len(ids))

    return _CCodec(_PIECE(calls.keeping(piece, _FAILED)), _ENCODE(calls.keeping(encode, _FAILED)))
