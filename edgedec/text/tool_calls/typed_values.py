"""Values between tags: plain text where a function's schema wants a string, and JSON elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edgedec.text.tool_calls.scanner import Scanner, Wait

_WORDS = {"True": "true", "False": "false", "None": "null"}


def typed_value(scanner: Scanner, end: str, schema: Mapping[str, Any], key: str, keep: str = "") -> Wait:
    """Read the value of the parameter ``key`` up to ``end``; ``keep`` before that belongs to the tag.

    A text is given out as it comes.
    """
    properties = schema.get("properties")
    own = properties.get(key) if isinstance(properties, dict) else None
    if isinstance(own, dict) and own.get("type") == "string":
        scanner.arguments('"')
        yield from scanner.pieces_until(end, lambda piece: scanner.arguments(_inner(piece)), keep)
        scanner.arguments('"')
        return
    pieces: list[str] = []
    yield from scanner.pieces_until(end, pieces.append, keep)
    scanner.arguments(_as_json("".join(pieces)))


def _inner(piece: str) -> str:
    return json.dumps(piece, ensure_ascii=False)[1:-1]


def _as_json(text: str) -> str:
    """Return a value that may be JSON, or a word of Python, or plain text."""
    plain = _WORDS.get(text.strip(), text)
    try:
        json.loads(plain, parse_constant=_refused)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return plain


def _refused(constant: str) -> None:
    raise ValueError(constant)
