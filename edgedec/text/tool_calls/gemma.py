"""FunctionGemma and Gemma 4: ``call:NAME{KEY:VALUE,...}`` between tags. A text has a tag on both sides.

FunctionGemma: <start_function_call>call:weather{town:<escape>Rome<escape>,days:2}<end_function_call>
Gemma 4: <|tool_call>call:weather{town:<|"|>Rome<|"|>,days:2}<tool_call|>
"""

from __future__ import annotations

import json
import re

from edgedec.text.tool_calls.family import Family, Parser, Schemas, tagged
from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait

_MOST_NAME = 200
_MOST_SCALAR = 1000
_MOST_DEPTH = 64
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


def _parser(begin: str, end: str, quote: str) -> Parser:
    def call(scanner: Scanner, schemas: Schemas) -> Wait:
        yield from scanner.expect("call:")
        name, _ = yield from scanner.until("{", most=_MOST_NAME)
        if not name.strip():
            raise NoCallError
        scanner.begin(name.strip())
        scanner.put_back("{")
        yield from _Values(scanner, quote).value()
        yield from scanner.space()
        yield from scanner.next_is(end)

    return tagged((begin,), call)


class _Values:
    """Rewrites Gemma's notation of values as JSON, while they come."""

    def __init__(self, scanner: Scanner, quote: str) -> None:
        self._scanner = scanner
        self._quote = quote

    def value(self, depth: int = 0) -> Wait:
        scanner = self._scanner
        if depth > _MOST_DEPTH:
            raise NoCallError
        yield from scanner.space()
        found = yield from scanner.next_is(self._quote, "{", "[")
        if found == "{":
            yield from self._items("{", "}", depth)
        elif found == "[":
            yield from self._items("[", "]", depth)
        elif found:
            yield from self._text()
        else:
            yield from self._word()

    def _items(self, begin: str, end: str, depth: int) -> Wait:
        scanner = self._scanner
        scanner.arguments(begin)
        yield from scanner.space()
        mark = yield from scanner.next_is(end)
        first = True
        while mark != end:
            scanner.arguments("" if first else ", ")
            first = False
            if begin == "{":
                yield from self._key()
            yield from self.value(depth + 1)
            mark = yield from scanner.expect(",", end)
        scanner.arguments(end)

    def _key(self) -> Wait:
        scanner = self._scanner
        yield from scanner.space()
        if (yield from scanner.next_is(self._quote)):
            yield from self._text()
            yield from scanner.expect(":")
        else:
            key, _ = yield from scanner.until(":", most=_MOST_NAME)
            scanner.arguments(json.dumps(key.strip(), ensure_ascii=False))
        scanner.arguments(": ")

    def _text(self) -> Wait:
        scanner = self._scanner
        scanner.arguments('"')
        yield from scanner.pieces_until(
            self._quote, lambda piece: scanner.arguments(json.dumps(piece, ensure_ascii=False)[1:-1])
        )
        scanner.arguments('"')

    def _word(self) -> Wait:
        """Read a number, or a word: true, false, null and None; any other one is a text."""
        word, mark = yield from self._scanner.until(",", "}", "]", most=_MOST_SCALAR)
        self._scanner.put_back(mark)
        word = "null" if word.strip() == "None" else word.strip()
        plain = word in ("true", "false", "null") or _NUMBER.fullmatch(word)
        self._scanner.arguments(word if plain else json.dumps(word, ensure_ascii=False))


_OLD = ("<start_function_call>", "<end_function_call>", "<escape>")
_NEW = ("<|tool_call>", "<tool_call|>", '<|"|>')

FUNCTION_GEMMA = Family("function-gemma", lambda template: _OLD[0] in template, _parser(*_OLD), _OLD)
GEMMA4 = Family("gemma4", lambda template: _NEW[0] in template, _parser(*_NEW), _NEW)
