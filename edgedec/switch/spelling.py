"""Text of a model elsewhere in the tokens of the reply's own."""

from __future__ import annotations

import re

from edgedec.text.tokenizer import Tokenizer

_INVALID = re.compile("([\udc80-\udcff]+)")
"""Bytes that are no UTF-8, as the error handler "surrogateescape" shows them."""
_LONGEST_BYTES = 256
"""Bytes without a boundary after which any end of a character will do."""


def spelled(vocabulary: Tokenizer, raw: bytes) -> list[int]:
    """Return tokens that add exactly ``raw`` in the middle of a text; without the bytes it has no token for.

    Bytes that are no UTF-8, and text that the tokenizer would change, become a token for each byte.
    """
    found: list[int] = []
    for part in _INVALID.split(raw.decode("utf-8", "surrogateescape")):
        piece = part.encode("utf-8", "surrogateescape")
        ids = [] if _INVALID.match(part) or not part else vocabulary.encode_inside(part)
        if b"".join([vocabulary.token_bytes(token) for token in ids]) != piece:
            each = [vocabulary.id_of(piece[at : at + 1]) for at in range(len(piece))]
            if None not in each or not ids:
                ids = [token for token in each if token is not None]
        found += ids
    return found


class StreamingDecoder:
    """Cuts a text that comes in pieces into tokens of ``vocabulary``, as soon as they are certain.

    A boundary is a place between two pieces where the tokenizer cuts, too: where the tokens of both together
    are those of one and of the other. Tokens are handed out up to the last boundary.
    """

    def __init__(self, vocabulary: Tokenizer) -> None:
        self._vocabulary = vocabulary
        self._held = b""
        self._ids: list[int] = []

    def push(self, piece: bytes) -> list[int]:
        """Take a piece; returns the tokens before the latest boundary, which lies before this piece."""
        alone, joined = spelled(self._vocabulary, piece), spelled(self._vocabulary, self._held + piece)
        bounded = joined == self._ids + alone and ends_whole(self._held)
        bounded = bounded or (len(self._held) > _LONGEST_BYTES and ends_whole(self._held))
        certain, self._ids = (self._ids, alone) if bounded else ([], joined)
        self._held = piece if bounded else self._held + piece
        return certain

    def flush(self) -> list[int]:
        """Return the tokens of all that is held."""
        ids, self._ids, self._held = self._ids, [], b""
        return ids


def ends_whole(raw: bytes) -> bool:
    """Whether ``raw`` ends with a whole character, or with none."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"
    return True
