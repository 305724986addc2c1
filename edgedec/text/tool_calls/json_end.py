"""The end of a JSON value in text that arrives in pieces. Brackets and strings are followed, not more."""

from __future__ import annotations

import re

_MARKS = re.compile(r'["\[\]{}]')
_IN_STRING = re.compile(r'["\\]')
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
        at = 0
        while at < len(text) and not self.over and not self.failed:
            if not self._begun:
                at = self._begin(text)
            elif self._in_string:
                at = self._string(text, at)
            elif self.scalar:
                match = _SCALAR_END.search(text, at)
                self.over = match is not None
                at = match.start() if match else len(text)
            else:
                at = self._inside(text, at)
        return at

    def _begin(self, text: str) -> int:
        self._begun = True
        first = text[0]
        if first in _CLOSED_BY:
            self._open.append(_CLOSED_BY[first])
            return 1
        if first == '"':
            self._in_string = True
            return 1
        self.scalar = first.isalnum() or first == "-"
        self.failed = not self.scalar
        return 0

    def _string(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        match = _IN_STRING.search(text, at)
        if match is None:
            return len(text)
        if match.group() == "\\":
            self._escaped = True
        else:
            self._in_string = False
            self.over = not self._open
        return match.end()

    def _inside(self, text: str, at: int) -> int:
        match = _MARKS.search(text, at)
        if match is None:
            return len(text)
        char = match.group()
        if char == '"':
            self._in_string = True
        elif char in _CLOSED_BY:
            self._open.append(_CLOSED_BY[char])
        elif self._open.pop() != char:
            self.failed = True
        else:
            self.over = not self._open
        return match.end()
