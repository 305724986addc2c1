"""Lower bounds on the number of tokens of a text, from its bytes alone."""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from edgedec.text.encoder import SPACE
from edgedec.text.tokenizer_guard import most_shrinking

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgedec.text.table_encoder import Encoder


class TokenLengths:
    """Lengths of a tokenizer's tokens in bytes. They are read from the vocabulary when first needed."""

    def __init__(self, encoder: Encoder, kind: Literal["bpe", "spm", "other"]) -> None:
        self._encoder = encoder
        self._byte_level = kind == "bpe"

    def most_bytes(self, tokens: int) -> int:
        """Return the bytes of UTF-8 beyond which a text is certainly more than ``tokens`` tokens."""
        return tokens * self._longest * self._shrinking

    def fewest(self, text: str) -> int:
        """Return a number of tokens that ``text`` certainly has.

        Let n be the length of the longest token with a certain byte. The sum of 1 / n over the bytes of one
        token is at most 1. So the sum over the bytes of a text is at most the number of its tokens. Bytes
        that the tokenizer may drop count nothing.
        """
        if self._shrinking > 1:
            return 0
        counts, lengths = Counter(text.encode("utf-8", "surrogatepass")), self._longest_with
        return math.floor(sum(count / lengths[byte] for byte, count in counts.items() if byte in lengths))

    @cached_property
    def _shrinking(self) -> int:
        return most_shrinking(self._encoder.facts)

    @cached_property
    def _longest(self) -> int:
        added = (len(token.content.encode()) for token in self._encoder.added.values())
        lengths: Iterable[int]
        if self._byte_level:  # a character stands for a byte
            lengths = map(len, self._encoder.spellings())
        else:
            extra = len(SPACE.encode()) - 1
            lengths = (len(text.encode()) - extra * text.count(SPACE) for text in self._encoder.spellings())
        return max(max(added, default=1), max(lengths, default=1))

    @cached_property
    def _longest_with(self) -> dict[int, int]:
        """Length of the longest token with each byte that is never dropped."""
        kept = self._kept_bytes()
        found = dict.fromkeys(kept, 1)
        for text in self._texts():
            for byte in kept.intersection(text):
                if len(text) > found[byte]:
                    found[byte] = len(text)
        return found

    def _kept_bytes(self) -> set[int]:
        """Find the bytes that neither are dropped nor become part of one unknown token with others."""
        known = self._encoder.id_of
        if self._byte_level:
            return {byte for byte, char in CHAR_OF.items() if known(char) is not None}
        all_known = all(known(f"<0x{byte:02X}>") is not None for byte in range(256))
        return set(range(256)) if self._encoder.facts.byte_fallback and all_known else set()

    def _texts(self) -> Iterator[bytes]:
        """Yield the bytes that every token may stand for."""
        for token in self._encoder.added.values():
            yield token.content.encode()
        for text in self._encoder.spellings():
            if not self._byte_level:
                yield text.replace(SPACE, " ").encode()
                continue
            try:
                yield text.translate(_LATIN_1_OF).encode("latin-1")
            except UnicodeEncodeError:  # an added token
                yield text.encode()


def _byte_alphabet() -> dict[str, bytes]:
    """Make the table of the characters that stand for the 256 bytes in byte-level BPE.

    Printable Latin-1 stands for itself; the other bytes are characters from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): bytes([byte]) for byte in printable}
    return table | {chr(0x100 + n): bytes([byte]) for n, byte in enumerate(others)}


BYTE_OF = _byte_alphabet()
CHAR_OF = {piece[0]: char for char, piece in BYTE_OF.items()}
_LATIN_1_OF = {ord(char): piece[0] for char, piece in BYTE_OF.items()}
