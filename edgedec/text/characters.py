"""Facts about all characters of Unicode, as the ``tokenizers`` library has them.

Libraries follow different versions of Unicode. A model was trained with the library's version, so its
own answers are asked for, a plane of characters at a time.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Any

import numpy as np

CODES = 0x110000
_SURROGATES = slice(0xD800, 0xE000)
_SEPARATOR = "\x01"
"""A character that normal forms leave alone, and that nothing combines with."""
_HANGUL = range(0xAC00, 0xD7A4)
"""Syllables, which are computed."""


@lru_cache(maxsize=32)
def members(expression: str) -> bytes:
    """Return the characters that match an expression of one character, as packed bits."""
    from tokenizers import Regex, normalizers

    return _deleted_by(normalizers.Replace(Regex(f"(?:{expression})+"), ""))


@cache
def digits() -> bytes:
    """Return the characters that the library's step ``Digits`` takes for digits, as packed bits."""
    from tokenizers import pre_tokenizers

    found = np.zeros(CODES, bool)
    together, apart = (pre_tokenizers.Digits(individual_digits=single) for single in (False, True))
    for plane in _planes():
        for piece, _ in together.pre_tokenize_str(plane):
            if len(apart.pre_tokenize_str(f"a{piece[0]}")) == 2:
                found[[ord(char) for char in piece]] = True
    return np.packbits(found).tobytes()


def masks(sets: list[bytes]) -> Any:
    """Return (first character, mask) for each run of characters that are in the same of up to 32 sets."""
    found = np.zeros(CODES, np.uint32)
    for bit, packed in enumerate(sets):
        found |= np.unpackbits(np.frombuffer(packed, np.uint8)).astype(np.uint32) << np.uint32(bit)
    starts = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
    return np.stack([starts.astype(np.uint32), found[starts]], axis=1)


@cache
def folded(char: str) -> bytes:
    """Return the characters that a letter of ASCII matches in either case."""
    from tokenizers import Regex, normalizers

    letters = np.unpackbits(np.frombuffer(members("(?i:[a-z])"), np.uint8)).astype(bool)
    step = normalizers.Replace(Regex(f"(?i:{char})"), "")
    for code in np.flatnonzero(letters):
        letters[code] = not step.normalize_str(chr(code))
    return np.packbits(letters).tobytes()


def one(char: str) -> bytes:
    """Return the set of a single character."""
    found = np.zeros(CODES, bool)
    found[ord(char)] = True
    return np.packbits(found).tobytes()


@cache
def decompositions() -> dict[int, str]:
    """Return the full canonical decomposition of each character that has one, but of syllables of Hangul."""
    from tokenizers import normalizers

    step = normalizers.NFD()
    found: dict[int, str] = {}
    for plane in _planes():
        chars = [char for char in plane if char != _SEPARATOR and ord(char) not in _HANGUL]
        parts = step.normalize_str(_SEPARATOR.join(chars)).split(_SEPARATOR)
        found |= {ord(c): part for c, part in zip(chars, parts, strict=True) if part != c}
    return found


@cache
def compositions() -> dict[tuple[int, int], int]:
    """Return the character that each pair becomes in the composed form, but for syllables of Hangul."""
    from tokenizers import normalizers

    step = normalizers.NFC()
    found = {}
    for code, parts in decompositions().items():
        if len(parts) > 1 and step.normalize_str(chr(code)) == chr(code):
            first = step.normalize_str(parts[:-1])
            if len(first) == 1:
                found[ord(first), ord(parts[-1])] = code
    return found


@cache
def combining_classes() -> dict[int, int]:
    """Return the combining class of each character whose class is not 0.

    The library orders characters by their classes. So one is compared with a character of each class, and
    gets the class between those that it passes and those that it does not.
    """
    from tokenizers import normalizers

    order = normalizers.NFD()
    marks = _swapped(order)
    ladder: dict[int, str] = {}
    for char in marks:
        if value := unicodedata.combining(char):
            ladder.setdefault(value, char)
    values = sorted(ladder)
    found = {}
    for char in marks:
        passes = order.normalize_str(_SEPARATOR.join(char + ladder[value] for value in values)).split(
            _SEPARATOR
        )
        behind = [value for value, pair in zip(values, passes, strict=True) if pair[0] != char]
        found[ord(char)] = next(value for value in values if not behind or value > behind[-1])
    return found


def _swapped(order: Any) -> list[str]:
    """Return the characters that change places with one of the lowest or of the highest class."""
    low, high = "\u0334", "\u0345"
    found = [low, high]
    for plane in _planes():
        chars = [char for char in plane if char != _SEPARATOR and not _changes(char)]
        after = order.normalize_str(_SEPARATOR.join(char + low for char in chars)).split(_SEPARATOR)
        before = order.normalize_str(_SEPARATOR.join(high + char for char in chars)).split(_SEPARATOR)
        found += [c for c, a, b in zip(chars, after, before, strict=True) if a != c + low or b != high + c]
    return found


def _changes(char: str) -> bool:
    return ord(char) in decompositions() or ord(char) in _HANGUL


def _deleted_by(step: Any) -> bytes:
    """Return the characters that a step deletes."""
    found = np.ones(CODES, bool)
    found[_SURROGATES] = False
    for plane in _planes():
        found[np.frombuffer(step.normalize_str(plane).encode("utf-32-le"), np.uint32)] = False
    return np.packbits(found).tobytes()


def _planes() -> list[str]:
    found = []
    for start in range(0, CODES, 1 << 16):
        codes = np.arange(start, start + (1 << 16), dtype="<u4")
        codes = codes[(codes < _SURROGATES.start) | (codes >= _SURROGATES.stop)]
        found.append(codes.tobytes().decode("utf-32-le"))
    return found
