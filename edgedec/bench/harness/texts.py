"""Prompts and texts from files of plain text or JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError

PROMPTS = (
    "Explain to a child why the sky is blue during the day and red in the evening.",
    "Write a Python function that returns the longest palindrome in a string, with docstring and tests.",
    "A train leaves at 9:40 and arrives at 13:05 after two stops of 7 minutes each. How long did it move?",
    "Summarise the causes of the First World War in five sentences, then name the most disputed one.",
)
"""Prompts of studies that get no file: different kinds of work, a few sentences each."""
QUESTIONS = (
    *PROMPTS,
    "Write a letter to a landlord about a broken heating, politely but firmly.",
    "List the planets of the solar system with one fact about each.",
    "Explain the difference between a list and a tuple in Python, with an example of each.",
    "A shop sells pens at 3 for 2 euros. What do 27 pens cost? Show every step.",
    "Translate into French: The library opens at nine and closes at six, except on Sundays.",
    "Describe how bread is baked, as a numbered list of steps.",
    "Write a short story that begins with: The last train had already left.",
    "Give five arguments for and five against working from home.",
    "Write a SQL query that finds the ten customers with the highest revenue in 2023.",
    "What happens in the body when we sleep? Answer in a few sentences.",
    "Name ten animals that live in the sea and say what each of them eats.",
    "Correct this text and repeat it: Their going too the libary tomorow, becouse its rainning.",
)
"""Prompts of studies that need more of them."""
_FIELDS = ("prompt", "question", "instruction", "text", "turns", "messages")
PARQUET = ".parquet"
_KINDS = ("kind", "category")
_LONGEST_KIND = 24


class ReadLine(NamedTuple):
    """A prompt, and of a line of JSON its value and the place where it stands."""

    text: str
    value: Any = None
    where: str = ""


def read_lines(path: Path) -> list[ReadLine]:
    """Return one prompt for each line of a ``.jsonl`` file, or each non-empty line of any other file.

    Rows of a ``.parquet`` file are read as such lines. Raises NotFoundError, BadFileError when it has none or
    a line is not understood, UnsupportedError.
    """
    if path.suffix == PARQUET:
        rows = [_of_value(row, f"{path}, row {number}") for number, row in enumerate(_rows(path), 1)]
        if not rows:
            raise BadFileError(f"{path} has no prompts in it")
        return rows
    lines = [line for line in _text(path).splitlines() if line.strip()]
    if not lines:
        raise BadFileError(f"{path} has no prompts in it")
    if path.suffix != ".jsonl":
        return [ReadLine(line) for line in lines]
    return [_of_json(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def read_prompts(path: Path) -> list[str]:
    """Return the texts of ``read_lines``."""
    return [one.text for one in read_lines(path)]


def read_kinds(path: Path) -> dict[str, str]:
    """Return the kind of text of each prompt of a ``.jsonl`` file whose line states one.

    Raises the errors of ``read_lines``.
    """
    return {one.text: kind for one in read_lines(path) if (kind := _kind(one.value))}


def read_text(path: Path) -> str:
    """Return the text of a file. Prompts of a ``.jsonl`` file are separated by empty lines."""
    return "\n\n".join(read_prompts(path)) if path.suffix == ".jsonl" else _text(path)


def _rows(path: Path) -> list[Any]:
    """Return the rows of a Parquet file as mappings."""
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import read_table
    except ImportError as error:
        raise UnsupportedError(f"reading {path} needs pyarrow", hint="pip install pyarrow") from error
    try:
        return list(read_table(path).to_pylist())
    except FileNotFoundError as error:
        raise NotFoundError(f"no such file: {path}") from error
    except (ArrowInvalid, OSError) as error:
        raise BadFileError(f"{path} is no Parquet file: {error!s:.100}".splitlines()[0]) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise NotFoundError(f"no such file: {path}") from error
    except UnicodeDecodeError as error:
        raise BadFileError(f"{path} is not UTF-8 text (byte {error.start})") from error


def _of_json(line: str, where: str) -> ReadLine:
    """Read a string, or the first known field of an object: a string or a list that begins with one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{where}: not JSON") from error
    return _of_value(value, where)


def _of_value(value: Any, where: str) -> ReadLine:
    text = value
    if isinstance(value, dict):
        text = next((value[name] for name in _FIELDS if name in value), None)
    if isinstance(text, list) and text:
        text = next((one for one in text if not isinstance(one, dict) or one.get("role") == "user"), None)
    if isinstance(text, dict):
        text = text.get("content")
    if not isinstance(text, str) or not text:
        raise BadFileError(f"{where}: no prompt in it", hint=f"known fields: {', '.join(_FIELDS)}")
    return ReadLine(text, value, where)


def _kind(line: Any) -> str:
    """Return the kind that an object states as one short word or a few; "" for none."""
    kind = next((line[name] for name in _KINDS if name in line), "") if isinstance(line, dict) else ""
    fits = isinstance(kind, str) and kind.isprintable() and len(kind) <= _LONGEST_KIND
    return kind.strip() if fits else ""
