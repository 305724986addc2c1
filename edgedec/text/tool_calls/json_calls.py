"""Calls as JSON objects: ``{"name": "now", "arguments": {}}``, one, several or a list of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

from edgedec.text.tool_calls.scanner import NoCallError, Scanner, Wait

_ARGUMENTS = ("arguments", "parameters")
_FAR = 4
"""Objects within each other up to the name: ``{"function": {"name": ...}}``."""


def json_calls(scanner: Scanner, accepts: Callable[[str], bool] = bool) -> Wait:
    """Read an object, a list of objects, or objects in a row; those after the first may be broken.

    Raises NoCallError if the first is no call, also if ``accepts`` refuses its name.
    """
    yield from scanner.space()
    if (yield from scanner.next_is("[")):
        yield from call_object(scanner, accepts)
        while (yield from scanner.expect(",", "]")) == ",":
            yield from call_object(scanner, accepts)
        return
    yield from call_object(scanner, accepts)
    while True:
        yield from scanner.space()
        if not scanner.text.startswith("{"):
            return
        yield from call_object(scanner, accepts)


def call_object(scanner: Scanner, accepts: Callable[[str], bool] = bool) -> Wait:
    """Read one call. Raises NoCallError for an object that is none."""
    reading = _Reading(scanner, accepts)
    yield from reading.members()
    reading.close()


class _Reading:
    """One call, the fields of which may come in any order."""

    def __init__(self, scanner: Scanner, accepts: Callable[[str], bool]) -> None:
        self._scanner = scanner
        self._accepts = accepts
        self._name: str | None = None
        self._arguments = ""
        self._begun = False

    def close(self) -> None:
        """Give out a call that has its arguments before its name, or none."""
        if not self._begun:
            self._begin()
            self._scanner.arguments(self._arguments or "{}")

    def members(self, depth: int = 0) -> Wait:
        scanner = self._scanner
        yield from scanner.expect("{")
        while True:
            key = yield from self._string()
            if scanner.strict and self._name is None and key != "name":
                raise NoCallError
            yield from scanner.expect(":")
            yield from self._member(key, depth)
            if (yield from scanner.expect(",", "}")) == "}":
                return

    def _member(self, key: str, depth: int) -> Wait:
        scanner = self._scanner
        yield from scanner.space()
        if key in ("name", "function") and scanner.text.startswith('"') and self._name is None:
            self._name = yield from self._string()
        elif key == "function" and scanner.text.startswith("{") and depth < _FAR:
            yield from self.members(depth + 1)
        elif key in _ARGUMENTS and not self._begun:
            yield from self._values()
        else:
            yield from scanner.value(_dropped)

    def _values(self) -> Wait:
        scanner = self._scanner
        if scanner.text.startswith("{") and self._name is not None:
            self._begin()
            yield from scanner.value(scanner.arguments)
            return
        pieces: list[str] = []
        yield from scanner.value(pieces.append)
        self._arguments = _as_object("".join(pieces))

    def _begin(self) -> None:
        if not self._name or not self._accepts(self._name):
            raise NoCallError
        self._begun = True
        self._scanner.begin(self._name)

    def _string(self) -> Generator[None, None, str]:
        yield from self._scanner.space()
        if not self._scanner.text.startswith('"'):
            raise NoCallError
        pieces: list[str] = []
        yield from self._scanner.value(pieces.append)
        found = _loaded("".join(pieces))
        if not isinstance(found, str):
            raise NoCallError
        return found


def _as_object(text: str) -> str:
    """Return arguments as an object: models write some as a text with JSON in it, and none as null."""
    found = _loaded(text)
    if isinstance(found, str):
        text, found = found, _loaded(found or "{}")
    if found is None:
        return "{}"
    if not isinstance(found, dict):
        raise NoCallError
    return text or "{}"


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        raise NoCallError from None


def _dropped(piece: str) -> None:
    """Pay no attention to a value."""
