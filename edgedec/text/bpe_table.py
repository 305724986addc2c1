"""A tokenizer's vocabulary and merges in a mapped file: ``tokenizer.table`` beside ``tokenizer.json``.

The library takes some 400 bytes of memory for each token; of the file only the pages in use are resident. It
is made of ``tokenizer.json`` once, and again when that changed; ``kernels/text/bpe.h`` has its layout.
"""

from __future__ import annotations

import ctypes
import json
import struct
import weakref
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import IntEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edgedec.bundle.manifest import TOKENIZER_TABLE
from edgedec.core.errors import BadFileError
from edgedec.kernels.library import library_path
from edgedec.text.added_tokens import AddedToken
from edgedec.text.encoder import TokenizerFacts

FILE_NAME = TOKENIZER_TABLE
MAGIC = b"EDGEBPE2"
NONE = 0xFFFFFFFF
IN_VOCABULARY, ADDED, SPECIAL, LEFT_STRIP, RIGHT_STRIP, NORMALIZED = 1, 2, 4, 8, 16, 32
BYTE_FALLBACK, FUSE_UNKNOWN, WHOLE_FIRST, ADDS_SPACE = 1, 2, 4, 8
_MISSING, _NO_ROOM = -1, -3
_AFTER_CHECKSUM = 12
_POINTER, _SIZE, _BYTES, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int
_INT64 = ctypes.c_int64
_SIGNATURES = {
    "check": (_INT64, _POINTER, _SIZE),
    "find": (_INT64, _POINTER, _SIZE, _BYTES, _SIZE),
    "open": (_POINTER, _POINTER, _SIZE),
    "close": (None, _POINTER),
    "ids": (_INT64, _POINTER, _INT, _POINTER, _SIZE, _BYTES, _SIZE, _POINTER, _SIZE),
}
"""By name without ``edgedec_text_``: result type, then argument types."""
_KEPT_BYTES = 4096
"""Longest text that an encoder is kept after: its memory grows with a text."""
_MOST_KEPT = 2


class TablePart(IntEnum):
    """The parts of the file, in the order of the header."""

    FACTS = 0
    STARTS = 1
    SPELLINGS = 2
    KINDS = 3
    SORTED = 4
    CHARS = 5
    BYTE_TOKENS = 6
    ROWS = 7
    MERGES = 8
    PATTERNS = 9
    PATTERN_TEXT = 10
    FIRST = 11
    RULES = 12
    RULE_TEXT = 13
    MASKS = 14
    DECOMPOSED = 15
    DECOMPOSITION = 16
    COMBINING = 17
    COMPOSED = 18


ELEMENT_BYTES = (1, 4, 1, 1, 4, 8, 4, 4, 12, 12, 1, 4, 4, 1, 8, 12, 4, 8, 12)
HEADER = struct.Struct(f"<8sIIII32s{2 * len(TablePart)}Q")


class BpeTable:
    """The ``Encoder`` of a mapped table. Its calls raise BadFileError where it contradicts itself."""

    def __init__(self, path: Path) -> None:
        """Map the file. Raises BadFileError for one that is no table or damaged, OSError."""
        try:
            self._bytes = np.memmap(path, np.uint8, "r")
        except ValueError as error:  # an empty file
            raise damaged() from error
        self._at = (self._bytes.ctypes.data, self._bytes.size)
        if self._call("check") < 0:
            raise damaged()
        _, checksum, flags, _, self.ids, self.source, *parts = HEADER.unpack_from(self._bytes.data)
        if _checksum(path) != checksum:
            raise damaged()
        self.mapped_bytes = self._bytes.size
        self.adds_space = bool(flags & ADDS_SPACE)
        self._idle: list[int] = []
        """Encoders that nobody uses. To make one takes longer than to encode a few words."""
        weakref.finalize(self, _close_all, self._idle)
        self._parts = dict(zip(TablePart, zip(parts[::2], parts[1::2], strict=True), strict=True))
        self.size = int(self._parts[TablePart.SORTED][1])

    @cached_property
    def facts(self) -> TokenizerFacts:
        try:
            return TokenizerFacts(**json.loads(self._part(TablePart.FACTS, np.uint8).tobytes()))
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged() from error

    @cached_property
    def added(self) -> dict[int, AddedToken]:
        found = ((id, self.added_token(id)) for id in np.flatnonzero(self._kinds & ADDED).tolist())
        return {id: one for id, one in found if one is not None}

    def added_token(self, token: int) -> AddedToken | None:
        """Return the added token of an id; None for any other."""
        kind = int(self._kinds[token]) if 0 <= token < self.ids else 0
        if not kind & ADDED:
            return None
        flags = (bool(kind & flag) for flag in (SPECIAL, NORMALIZED, LEFT_STRIP, RIGHT_STRIP))
        return AddedToken(self.spelling(token) or "", *flags)

    def spelling(self, token: int) -> str | None:
        """Return a token as the vocabulary spells it; None for no token."""
        if not 0 <= token < self.ids or not self._kinds[token] & (IN_VOCABULARY | ADDED):
            return None
        start, end = int(self._starts[token]), int(self._starts[token + 1])
        spelled: bytes = self._spelled[start:end].tobytes()
        if not start <= end <= self._spelled.size:
            raise damaged()
        return spelled.decode("utf-8", "replace")

    def spellings(self) -> Iterator[str]:
        """Yield every token as the vocabulary spells it."""
        for token in range(self.ids):
            text = self.spelling(token)
            if text is not None:
                yield text

    def vocabulary(self) -> dict[str, int]:
        spelled = ((token, self.spelling(token)) for token in range(self.ids))
        return {text: token for token, text in spelled if text is not None}

    def id_of(self, spelling: str) -> int | None:
        """Return the id of the token that the vocabulary spells so."""
        text = spelling.encode("utf-8", "surrogatepass")
        found = self._call("find", text, len(text))
        return None if found == _MISSING else self._checked(found)

    def ids_with(self, beginning: bytes) -> list[int]:
        """Return the ids of the tokens whose spelling in UTF-8 begins so, in the order of their bytes."""
        order, starts, most = self._part(TablePart.SORTED, np.uint32), self._starts, len(beginning)

        def spelled(token: int) -> bytes:
            start, end = int(starts[token]), int(starts[token + 1])
            found: bytes = self._spelled[start : min(start + most, end)].tobytes()
            return found

        first = bisect_left(order, beginning, key=spelled)
        found: list[int] = order[first : bisect_right(order, beginning, lo=first, key=spelled)].tolist()
        return found

    def encode(self, text: str, *, parse_special: bool, literal: Sequence[int] = ()) -> list[int]:
        """Return the ids of a text; without ``parse_special`` control tokens in it stay text.

        With it, those stay text that contain one of the characters at ``literal``, ascending indices.
        Raises UnicodeEncodeError for lone surrogates.
        """
        data = text.encode()
        places = (_SIZE * len(literal))(*_byte_places(text, literal))
        encoder = self._encoder()
        try:
            return self._encoded(encoder, data, parse_special, places)
        finally:
            if len(data) <= _KEPT_BYTES and len(self._idle) < _MOST_KEPT:
                self._idle.append(encoder)
            else:
                _close_all([encoder])

    def _encoder(self) -> int:
        with suppress(IndexError):
            return self._idle.pop()  # several threads may encode
        if not (made := _library().edgedec_text_open(*self._at)):
            raise damaged()
        return int(made)

    def _encoded(
        self, encoder: int, data: bytes, specials: bool, literal: ctypes.Array[ctypes.c_size_t]
    ) -> list[int]:
        room = len(data) + 64
        while True:
            ids = array("I", bytes(4 * room))  # not NumPy's, whose address takes as long as encoding a word
            count = _library().edgedec_text_ids(
                encoder, specials, literal, len(literal), data, len(data), ids.buffer_info()[0], room
            )
            if count != _NO_ROOM:
                return ids[: self._checked(count)].tolist()
            room *= 2

    @cached_property
    def _kinds(self) -> Any:
        return self._part(TablePart.KINDS, np.uint8)

    @cached_property
    def _starts(self) -> Any:
        return self._part(TablePart.STARTS, np.uint32)

    @cached_property
    def _spelled(self) -> Any:
        return self._part(TablePart.SPELLINGS, np.uint8)

    def _part(self, part: TablePart, kind: Any) -> Any:
        offset, count = self._parts[part]
        return np.frombuffer(self._bytes, kind, count, offset)

    def _call(self, name: str, *arguments: object) -> int:
        return int(getattr(_library(), f"edgedec_text_{name}")(*self._at, *arguments))

    def _checked(self, result: int) -> int:
        if result < 0:
            raise damaged()
        return result


def _byte_places(text: str, places: Sequence[int]) -> Iterator[int]:
    """Yield where characters begin in the text's UTF-8."""
    if text.isascii():
        yield from places
        return
    done = nbytes = 0
    for place in places:
        nbytes += len(text[done:place].encode())
        done = place
        yield nbytes


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()))
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, f"edgedec_text_{name}")
        function.restype, function.argtypes = arguments[0], arguments[1:]
    return library


def _close_all(encoders: list[int]) -> None:
    for encoder in encoders:
        _library().edgedec_text_close(encoder)


def available() -> bool:
    """Whether the kernel library can read tables; one of an earlier build cannot."""
    try:
        _library()
    except AttributeError:
        return False
    return True


def damaged() -> BadFileError:
    """Return the error for a table that contradicts itself."""
    return BadFileError(f"{FILE_NAME} of the bundle is damaged", hint="remove that file: it is made again")


def _checksum(path: Path) -> int:
    """Return the checksum that the file should state. Reading it takes no memory, as its mapping would."""
    found = 0
    with path.open("rb") as stream:
        stream.seek(_AFTER_CHECKSUM)
        while chunk := stream.read(1 << 18):
            found = zlib.crc32(chunk, found)
    return found


def table_bytes(
    facts: TokenizerFacts, flags: int, unknown: int, ids: int, source: bytes, parts: dict[TablePart, bytes]
) -> bytes:
    """Return the content of a table."""
    places: list[int] = []
    body = bytearray()
    for part in TablePart:
        content = json.dumps(asdict(facts)).encode() if part is TablePart.FACTS else parts[part]
        places += (HEADER.size + len(body), len(content) // ELEMENT_BYTES[part])
        body += content + bytes(-len(content) % 8)
    content = HEADER.pack(MAGIC, 0, flags, unknown, ids, source, *places) + body
    checksum = zlib.crc32(content[_AFTER_CHECKSUM:])
    return content[:8] + checksum.to_bytes(4, "little") + content[_AFTER_CHECKSUM:]
