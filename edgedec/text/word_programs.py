"""From a pre-tokeniser's regular expression to the program with which ``kernels/text/words.h`` finds words.

An expression is read as the ``tokenizers`` library reads it (Oniguruma's syntax): alternatives of runs of
classes of characters. A class is not interpreted here: ``characters`` asks the library for its members.
"""

from __future__ import annotations

import re
from dataclasses import field
from functools import cache
from typing import NoReturn

from edgedec.core.quick_dataclass import dataclass
from edgedec.text import characters

RUN, TAKE, EITHER, JUMP, AHEAD, MATCH = range(6)
ENDLESS = 0x7FFFFFFF
_MOST_CLASSES = 32
_PLAIN_ESCAPES = {"r": "\r", "n": "\n", "t": "\t"}
_COUNT = re.compile(r"\{(\d+)(,?)(\d*)\}")
_DEEP = 8
Instruction = tuple[int, int, int, int]


class NoTableError(Exception):
    """A tokenizer that a table cannot hold; its text says why."""


@dataclass
class ClassTable:
    """The classes of characters of all programs of one tokenizer."""

    sets: list[bytes] = field(default_factory=list)

    def number(self, members: bytes) -> int:
        """Return the number of a class."""
        if members not in self.sets:
            self.sets.append(members)
        if len(self.sets) > _MOST_CLASSES:
            raise NoTableError(f"it has expressions of more than {_MOST_CLASSES} classes of characters")
        return self.sets.index(members)

    def masks(self) -> bytes:
        """Return the table of classes by character."""
        return bytes(characters.masks(self.sets).tobytes()) if self.sets else b""


def program_of(expression: str, classes: ClassTable) -> list[int]:
    """Return the program of an expression as words. Raises NoTableError for one that it cannot be."""
    reader = _Reader(expression, classes)
    code, shortest = reader.alternatives()
    if reader.at < len(expression):
        reader.refuse("a bracket that closes nothing")
    if not shortest:
        reader.refuse("a match of nothing")
    return [word for instruction in [*code, (MATCH, 0, 0, 0)] for word in instruction]


def literal(text: str, classes: ClassTable) -> list[int]:
    """Return the program that finds a text."""
    return _of_runs([characters.one(char) for char in text], classes)


def one_of(members: bytes, classes: ClassTable) -> list[int]:
    """Return the program that finds one character of a set."""
    return _of_runs([members], classes)


def _of_runs(sets: list[bytes], classes: ClassTable) -> list[int]:
    runs = [(RUN, classes.number(members), 1, 1) for members in sets]
    return [word for instruction in [*runs, (MATCH, 0, 0, 0)] for word in instruction]


class _Reader:
    """Reads an expression. Its methods return code, and the fewest characters that it matches."""

    def __init__(self, expression: str, classes: ClassTable) -> None:
        self._text = expression
        self._classes = classes
        self.at = 0

    def refuse(self, reason: str) -> NoReturn:
        raise NoTableError(f"it has the expression {self._text!r:.200} ({reason})")

    def alternatives(self, *, folds: bool = False, depth: int = 0) -> tuple[list[Instruction], int]:
        """Read up to the end of the group."""
        if depth > _DEEP:
            self.refuse("deep brackets")
        found = [self._sequence(folds, depth)]
        while self._next("|"):
            found.append(self._sequence(folds, depth))
        joined, fewest = found.pop()
        for code, least in reversed(found):
            joined = [(EITHER, 1, len(code) + 2, 0), *code, (JUMP, len(joined) + 1, 0, 0), *joined]
            fewest = min(fewest, least)
        return joined, fewest

    def _sequence(self, folds: bool, depth: int) -> tuple[list[Instruction], int]:
        code: list[Instruction] = []
        fewest, beside = 0, ""
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            if self._text.startswith("(", self.at):
                group, least = self._group(folds, depth)
                beside = ""
            else:
                leaf, members = self._leaf(folds)
                group, least = self._run(members)
                beside = self._together(beside + leaf) if folds else ""
            code += group
            fewest += least
        return code, fewest

    def _group(self, folds: bool, depth: int) -> tuple[list[Instruction], int]:
        for opening, wanted in (("(?!", 0), ("(?=", 1)):
            if self._next(opening):
                _, members = self._leaf(folds)
                if not self._next(")"):
                    self.refuse("looking ahead at more than a character")
                return [(AHEAD, self._classes.number(members), wanted, 0)], 0
        if self._next("(?i:"):
            folds = True
        elif not self._next("(?:") and (not self._next("(") or self._text.startswith("?", self.at)):
            self.refuse("a group of another kind")
        code, fewest = self.alternatives(folds=folds, depth=depth + 1)
        if not self._next(")"):
            self.refuse("a bracket that does not end")
        if self._next("?"):
            code, fewest = [(EITHER, 1, len(code) + 1, 0), *code], 0
        if self._text[self.at : self.at + 1] in ("*", "+", "?", "{"):
            self.refuse("a group that is repeated")
        return code, fewest

    def _run(self, members: bytes) -> tuple[list[Instruction], int]:
        fewest, most = 1, 1
        held = False
        if match := _COUNT.match(self._text, self.at):
            fewest = int(match[1])
            most = int(match[3]) if match[3] else ENDLESS if match[2] else fewest
            self.at = match.end()
        else:
            for mark, bounds in (("?", (0, 1)), ("*", (0, ENDLESS)), ("+", (1, ENDLESS))):
                if self._next(mark):
                    fewest, most = bounds
                    held = self._next("+")
                    break
        if self._text[self.at : self.at + 1] in ("?", "*", "+") or not fewest <= most or not most:
            self.refuse("a count of another kind")
        return [(TAKE if held else RUN, self._classes.number(members), fewest, most)], fewest

    def _leaf(self, folds: bool) -> tuple[str, bytes]:
        """Read a class of characters; return the text of a literal, else '', and the members."""
        text, at = self._text, self.at
        char = text[at : at + 1]
        if char == "[":
            self.at = self._bracket_end()
        elif char == "\\" and (match := re.compile(r"\\[pP]\{\^?\w+\}|\\[sSdD]").match(text, at)):
            self.at = match.end()
        elif char == "\\" and (
            text[at + 1 : at + 2] in _PLAIN_ESCAPES or not text[at + 1 : at + 2].isalnum()
        ):
            self.at = at + 2
            escaped = text[at + 1 : at + 2]
            return self._literal(_PLAIN_ESCAPES.get(escaped, escaped), folds)
        elif char in "\\.^$*+?{)" or not char:
            self.refuse(f"{text[at : at + 2]!r}")
        else:
            self.at = at + 1
            return self._literal(char, folds)
        expression = text[at : self.at]
        return "", self._asked(f"(?i:{expression})" if folds else expression)

    def _literal(self, char: str, folds: bool) -> tuple[str, bytes]:
        if folds and char.isascii() and char.isalpha():
            return char, characters.folded(char)
        if folds and not char.isascii():
            self.refuse(f"{char!r} in either case")
        return char, characters.one(char)

    def _asked(self, expression: str) -> bytes:
        try:
            return characters.members(expression)
        except Exception as error:  # the library raises bare Exception
            raise NoTableError(f"it has the expression {self._text!r:.200} ({error})") from error

    def _bracket_end(self) -> int:
        at = self.at + 1
        at += self._text.startswith("^", at)
        at += self._text.startswith("]", at)
        depth = 1
        while depth:
            char = self._text[at : at + 1]
            if not char:
                self.refuse("a class that does not end")
            depth += (char == "[") - (char == "]")
            at += 2 if char == "\\" else 1
        return at

    def _together(self, literals: str) -> str:
        """Return the last literals; refuse those that together are one character in another case."""
        if any(several in literals.casefold() for several in _several_in_lower_case()):
            self.refuse("letters that together have another case")
        return literals[-3:]

    def _next(self, text: str) -> bool:
        if not self._text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True


@cache
def _several_in_lower_case() -> frozenset[str]:
    """Return the texts of several characters that are one character in another case."""
    return frozenset(text for code in range(0x10000) if len(text := chr(code).casefold()) > 1)
