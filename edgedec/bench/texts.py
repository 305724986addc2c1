"""Prompts and texts from files: plain text, or JSON lines with the usual names of fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgedec.core.errors import BadFileError, NotFoundError

PROMPTS = (
    "Explain to a child why the sky is blue during the day and red in the evening.",
    "Write a Python function that returns the longest palindrome in a string, with docstring and tests.",
    "A train leaves at 9:40 and arrives at 13:05 after two stops of 7 minutes each. How long did it move?",
    "Summarise the causes of the First World War in five sentences, then name the most disputed one.",
)
"""What is measured with when the user gives nothing: different kinds of work, a few sentences each."""
_FIELDS = ("prompt", "question", "instruction", "text", "turns")


def read_prompts(path: Path) -> list[str]:
    """One prompt per line of a ``.jsonl`` file (see ``_prompt``), or per non-empty line of any other file.

    Raises NotFoundError, BadFileError when it has none or a line is not understood.
    """
    lines = [line for line in _text(path).splitlines() if line.strip()]
    if path.suffix == ".jsonl":
        lines = [_prompt(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    if not lines:
        raise BadFileError(f"{path} has no prompts in it")
    return lines


def read_text(path: Path) -> str:
    """The whole text of a file; of a ``.jsonl`` file, its prompts separated by empty lines."""
    return "\n\n".join(read_prompts(path)) if path.suffix == ".jsonl" else _text(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(f"no such file: {path}") from error
    except UnicodeDecodeError as error:
        raise BadFileError(f"{path} is not UTF-8 text (byte {error.start})") from error


def _prompt(line: str, where: str) -> str:
    """A string, or an object whose first known field is a string or a list that begins with one."""
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{where}: not JSON") from error
    if isinstance(value, dict):
        value = next((value[name] for name in _FIELDS if name in value), None)
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, str) or not value:
        raise BadFileError(f"{where}: no prompt in it", hint=f"known fields: {', '.join(_FIELDS)}")
    return value
