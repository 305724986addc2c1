"""Counts of lines of code: without blanks, comments, docstrings and imports."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

from tests.project.sources import relative, sources

CPP = (".cc", ".h")
_PROSE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(include|pragma once)")


def python_lines(text: str) -> int:
    """Count the lines of Python that hold code."""
    counted: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _PROSE:
            counted.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_prose(node):
            counted.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(counted)


def cpp_lines(text: str) -> int:
    """Count the lines of C++ that hold code."""
    bare = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else "\n" * found[0].count("\n"), text)
    return sum(bool(line.strip()) and not _DIRECTIVE.match(line) for line in bare.splitlines())


@cache
def code_lines() -> dict[str, int]:
    """Return the lines of code of each file of Python and C++, by its path."""
    counts = {".py": python_lines} | dict.fromkeys(CPP, cpp_lines)
    return {relative(file): counts[file.suffix](_text(file)) for file in sources() if file.suffix in counts}


def _is_prose(node: ast.AST) -> bool:
    """Whether a node is a text that stands alone: a docstring, of whatever stands before it."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")
