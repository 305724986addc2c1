"""Gaps in Python's standard library, filled by real models: the same tokens with drafts as without.

``pytest -m slow -s tests/integration/test_infill.py`` prints how many first lines are those of the library,
and how many words that a gap begins in the middle of.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgedec
from tests.fixtures.real_models import installed

MODULES = (
    "argparse", "ast", "bisect", "calendar", "cmd", "configparser", "copy", "csv", "dataclasses", "difflib",
    "fnmatch", "fractions", "gzip", "heapq", "inspect", "mailbox", "queue", "shelve", "statistics",
    "textwrap",
)  # fmt: skip
LEAST_RIGHT = {"qwen2.5-coder-0.5b": 2, "qwen2.5-coder-1.5b": 2}
"""First lines, of 20, that each model has to find: chance finds none."""
BEFORE, BEHIND, TOKENS = 24, 12, 24


def gaps() -> Iterator[tuple[edgedec.Infill, str]]:
    """One gap of each module, a line in the middle of its longest function, and the line that was there."""
    folder = Path(ast.__file__).parent
    for name in MODULES:
        source = (folder / f"{name}.py").read_text(encoding="utf-8")
        lines = source.splitlines(keepends=True)
        functions = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef)]
        longest = max(functions, key=lambda one: (one.end_lineno or 0) - one.lineno)
        every = [one for one in ast.walk(longest) if isinstance(one, ast.stmt)]
        body = sorted((one for one in every if one.lineno == one.end_lineno), key=lambda one: one.lineno)
        at = body[len(body) // 2].lineno - 1
        before, behind = "".join(lines[max(at - BEFORE, 0) : at]), "".join(lines[at + 1 : at + 1 + BEHIND])
        yield edgedec.Infill(before, behind), lines[at].strip()


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAST_RIGHT)
def test_drafts_change_no_gap(name: str) -> None:
    bundle = installed(name)
    right = 0
    with (
        edgedec.open(bundle, draft="off", context=1024, temperature=0) as plain,
        edgedec.open(bundle, draft="auto", context=1024, temperature=0) as quick,
    ):
        drafted = 0
        for number, (gap, line) in enumerate(gaps()):
            wanted, found = (one.complete(gap, max_tokens=TOKENS) for one in (plain, quick))
            assert (wanted.read(), wanted.tokens) == (found.read(), found.tokens), MODULES[number]
            drafted += sum(source is not None for source in found.sources)
            right += wanted.text.strip().splitlines()[:1] == [line]
    print(f"{name}: {right} of {len(MODULES)} first lines are right; {drafted} drafted tokens were accepted")
    assert drafted
    assert right >= LEAST_RIGHT[name]


LEAST_WORDS = 10
"""Of 16; less than half are right where the text before a gap stays as it is."""


def words() -> Iterator[tuple[edgedec.Infill, str]]:
    """The gaps from the middle of a word of the line on, and the end of that word."""
    for gap, line in gaps():
        if word := re.search(r"[A-Za-z]{5,}", line):
            at = (word.start() + word.end()) // 2 + 1
            end = re.match(r"\w*", line[at:])
            assert end is not None
            yield edgedec.Infill(f"{gap.prefix}        {line[:at]}", f"\n{gap.suffix}"), end[0]


@pytest.mark.slow
def test_words_that_a_gap_begins_in_end_rightly() -> None:
    right = count = 0
    with edgedec.open(installed("qwen2.5-coder-0.5b"), draft="auto", context=1024, temperature=0) as model:
        for gap, end in words():
            text = model.complete(gap, max_tokens=8).read()
            found = re.match(r"\w*", text)
            right += found is not None and found[0] == end
            count += 1
    print(f"{right} of {count} words end as in the library")
    assert right >= LEAST_WORDS
