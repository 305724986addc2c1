"""Calls in Python's syntax: ``[weather(town="Rome", days=2), now()]``."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

from edgedec.text.tool_calls.scanner import NoCallError, Scanner

_WORDS = {"true": True, "false": False, "null": None}
_MOST_DEPTH = 64


def calls_of(text: str) -> list[tuple[str, str]]:
    """Return name and arguments, as JSON, of each call in a list. Raises NoCallError."""
    tree = _parsed(text)
    if not isinstance(tree, ast.List) or not tree.elts:
        raise NoCallError
    return [_call(node) for node in tree.elts]


def call_of(text: str) -> tuple[str, str]:
    """Return name and arguments of one call. Raises NoCallError."""
    return _call(_parsed(text))


def give(scanner: Scanner, name: str, arguments: str) -> None:
    """Give out a call that is there as a whole."""
    scanner.begin(name)
    scanner.arguments(arguments)


def python_text(value: Any) -> str:
    """Write a value of JSON in Python's syntax; characters stay as they are."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{python_text(key)}: {python_text(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(python_text, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoCallError from None


def _call(node: ast.expr) -> tuple[str, str]:
    if not isinstance(node, ast.Call) or node.args or any(one.arg is None for one in node.keywords):
        raise NoCallError
    arguments = {one.arg: _value(one.value) for one in node.keywords}
    return _name(node.func), json.dumps(arguments, ensure_ascii=False)


def _name(node: ast.expr, depth: int = 0) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and depth < _MOST_DEPTH:
        return f"{_name(node.value, depth + 1)}.{node.attr}"
    raise NoCallError


def _value(node: ast.expr, depth: int = 0) -> Any:
    """Return a literal, also with the words of JSON."""
    if depth > _MOST_DEPTH:
        raise NoCallError
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        return node.value
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item, depth + 1) for item in node.elts]
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        keys = [str(key.value) for key in node.keys if isinstance(key, ast.Constant)]
        return dict(zip(keys, [_value(item, depth + 1) for item in node.values], strict=True))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand, depth + 1)
        if isinstance(inner, int | float):
            return -inner
    raise NoCallError
