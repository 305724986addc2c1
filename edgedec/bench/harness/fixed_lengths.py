"""Questions of a fixed length by the recipe of SPEED-Bench's throughput splits, made of the package's texts.

Each length has three kinds, by how freely the answer can be chosen: the text once more (low entropy), its
explanation (mixed), a story around it (high). SPEED-Bench's own prompts may not be shipped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import edgedec
from edgedec.bench.harness.questions import Question

if TYPE_CHECKING:
    from edgedec.text.tokenizer import Tokenizer

LENGTHS = {f"throughput-{count}k": count * 1024 for count in (1, 2, 8, 16, 32)}
"""Tokens of a prompt, without the chat template, by the name of a split."""
PER_KIND = 4
_KINDS = {
    "low_entropy": "Write these lines of Python again, in the same order, without any change.",
    "mixed": "Explain these lines of Python, function by function, and quote the line that each begins with.",
    "high_entropy": "Write a long story in which the thoughts of these notes come true, one after the other.",
}
_END = "\n\nBegin now."


def fixed_length_questions(name: str, tokenizer: Tokenizer) -> list[Question]:
    """Return the questions of a split: always the same ones for a tokenizer and a version of the package."""
    return [
        Question(
            f"{kind}-{number}", kind, (_prompt(asked, kind, number, LENGTHS[name], tokenizer),), speed=True
        )
        for kind, asked in _KINDS.items()
        for number in range(PER_KIND)
    ]


def _prompt(asked: str, kind: str, number: int, tokens: int, tokenizer: Tokenizer) -> str:
    """Return a prompt of so many tokens, to which a text is cut."""
    room = tokens - len(tokenizer.encode(asked + "\n\n" + _END))
    ids: list[int] = []
    for piece in _pieces(number, notes=kind == "high_entropy"):
        ids += tokenizer.encode(piece)
        if len(ids) >= room:
            break
    return f"{asked}\n\n{tokenizer.decode(ids[:room])}{_END}"


def _pieces(number: int, *, notes: bool) -> Iterator[str]:
    """Give texts without end, from another file on for each number."""
    files = sorted(Path(edgedec.__file__).parent.rglob("*.py"))
    first = number * len(files) // PER_KIND
    while True:
        for file in chain(islice(files, first, None), islice(files, first)):
            text = file.read_text(encoding="utf-8")
            yield from _notes(text) if notes else [text]


def _notes(text: str) -> Sequence[str]:
    """Return the docstrings of a file."""
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef
    found = [ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return [f"- {one}\n" for one in found if one]
