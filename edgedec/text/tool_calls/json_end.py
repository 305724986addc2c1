"""The end of a JSON value in text that arrives in pieces. Brackets and strings are followed, not more."""

from __future__ import annotations

import re

_SCALAR_END = re.compile(r"[\s,\]};<]")
_CLOSED_BY = {"{": "}", "[": "]"}


class JsonEnd:
    """Finds the end of one value; give it each piece of text once.

    ``over`` is True after the end, ``failed`` where brackets do not match. ``scalar``: it is a number or a
    word, which ends where something else begins.

    >>> end = JsonEnd()
    >>> end.find('{"a": "}'), end.over, end.find('"} and'), end.over
    (8, False, 2, True)
    """

    def __init__(self) -> None:
        self.over = self.failed = self.scalar = False
        self._open: list[str] = []
        self._in_string = self._escaped = False
        self._begun = False

    def find(self, text: str) -> int:
        """Return how many characters at the beginning of ``text`` belong to the value."""
        for at, char in enumerate(text):
            if not self._begun:
                self._begun, self.scalar = True, (char.isascii() and char.isalnum()) or char == "-"
                self.failed = not self.scalar and char not in '"{['
            elif self.scalar:
                self.over = _SCALAR_END.match(char) is not None
            if self.over or self.failed:
                return at
            if not self.scalar:
                self._follow(char)
                if self.over or self.failed:
                    return at + 1
        return len(text)

    def _follow(self, char: str) -> None:
        if self._in_string:
            self._in_string = self._escaped or char != '"'
            self._escaped = char == "\\" and not self._escaped
        elif char == '"':
            self._in_string = True
        elif char in _CLOSED_BY:
            self._open.append(_CLOSED_BY[char])
        elif char in "]}":
            self.failed = self._open.pop() != char
        self.over = not (self._open or self._in_string or self.failed)
