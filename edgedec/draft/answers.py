"""A table of what the target answered after given tokens, in memory fixed in advance."""

from __future__ import annotations

import struct
from array import array

LEVELS = 16
"""A probability is kept as its level, p * LEVELS rounded down."""
WIDTH = 4
"""Answers kept per context."""

_ROW_BYTES = 4 + 4 * WIDTH + WIDTH + 1
_HEADER = struct.Struct("<II")
_MASK = (1 << 64) - 1


Answer = tuple[list[int], bytes, int]
"""The most likely tokens after a context, their levels, and the mark they were stored with."""


class AnswerTable:
    """At most ``nbytes`` bytes of answers to contexts of one or two tokens.

    Each context has one place, and what comes there last stays: memory is the same from the start, nothing
    needs to be searched, and old knowledge is what gives way. A tag tells contexts of one place apart.
    """

    def __init__(self, nbytes: int) -> None:
        self._bits = max((nbytes // _ROW_BYTES).bit_length() - 1, 0)
        rows = 1 << self._bits
        self._tags = array("I", bytes(4 * rows))  # 0: nothing here
        self._tokens = array("i", bytes(4 * WIDTH * rows))
        self._levels = bytearray(WIDTH * rows)
        self._marks = bytearray(rows)

    def store(self, key: int, tokens: list[int], levels: bytes, mark: int) -> None:
        """``WIDTH`` tokens with their levels; -1 stands for none. ``mark`` is in [0, 256)."""
        place = key >> (64 - self._bits)
        start = WIDTH * place
        self._tags[place] = key & 0xFFFFFFFF | 1
        self._tokens[start : start + WIDTH] = array("i", tokens)
        self._levels[start : start + WIDTH] = levels
        self._marks[place] = mark

    def find(self, key: int) -> Answer | None:
        """What was stored last under ``key``, unless it had to give way."""
        place = key >> (64 - self._bits)
        if self._tags[place] != key & 0xFFFFFFFF | 1:
            return None
        start = WIDTH * place
        end = start + WIDTH
        return self._tokens[start:end].tolist(), bytes(self._levels[start:end]), self._marks[place]

    def nbytes(self) -> int:
        return _ROW_BYTES << self._bits

    def saved(self) -> bytes:
        """All of it; of a table that is half empty, compression takes the other half."""
        parts = (self._tags.tobytes(), self._tokens.tobytes(), self._levels, self._marks)
        return _HEADER.pack(self._bits, WIDTH) + b"".join(parts)

    def restore(self, data: bytes, vocab_size: int) -> None:
        """What a table of this size ``saved``. Raises ValueError for anything else."""
        rows = 1 << self._bits
        if len(data) != _HEADER.size + self.nbytes() or _HEADER.unpack_from(data) != (self._bits, WIDTH):
            raise ValueError("not the answers of a table of this size")
        at = _HEADER.size
        tags, at = data[at : at + 4 * rows], at + 4 * rows
        found, at = data[at : at + 4 * WIDTH * rows], at + 4 * WIDTH * rows
        tokens = array("i", found)
        if min(tokens) < -1 or max(tokens) >= vocab_size:
            raise ValueError("answers outside the vocabulary")
        levels, at = data[at : at + WIDTH * rows], at + WIDTH * rows
        if max(levels) >= LEVELS:
            raise ValueError("answers more probable than certain")
        self._tags, self._tokens = array("I", tags), tokens
        self._levels, self._marks = bytearray(levels), bytearray(data[at:])


def key_of(before: int, last: int) -> int:
    """64 bits for the context of two tokens, or with ``before`` -1 of one."""
    mixed = ((before + 2) * 0x9E3779B97F4A7C15 + last * 0xC2B2AE3D27D4EB4F) & _MASK
    mixed ^= mixed >> 29
    return mixed * 0xBF58476D1CE4E5B9 & _MASK
