"""Sizes that CONTRIBUTING states in public: lines of code by room, and what is written twice.

A commit that raises one of them says why.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.conftest import ROOT
from tests.project.code_lines import code_lines, cpp_lines, python_lines

_ROW = re.compile(r"^\| (?P<name>[^|]*?)(?: \((?P<folders>`[^|]*`)\))? \| (?P<most>[\d,]+) \|$")
TOTALS = {"Python in all": (".py",), "C++ in all": (".cc", ".h")}
"""Rows of all files outside tests, by their endings."""


@cache
def stated() -> dict[str, tuple[tuple[str, ...], int]]:
    """Folders and the most lines of code of each row of CONTRIBUTING's table."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("\n## Size\n")[1].split("\n## ")[0]
    rows = [found for line in section.splitlines() if (found := _ROW.match(line))]
    return {
        row["name"]: (
            tuple(re.findall(r"`([^`]+)`", row["folders"] or "")),
            int(row["most"].replace(",", "")),
        )
        for row in rows
    }


def room_of(path: str) -> str:
    """The row whose folder holds a file; of several the one with the longest name."""
    fits = {
        folder: name
        for name, (folders, _) in stated().items()
        for folder in folders
        if path.startswith(folder)
    }
    assert fits, f"{path}: no row of CONTRIBUTING's table of sizes names its folder"
    return fits[max(fits, key=len)]


@cache
def counted() -> dict[str, int]:
    found = dict.fromkeys(stated(), 0)
    for path, lines in code_lines().items():
        found[room_of(path)] += lines
        if not path.startswith("tests/"):
            for name, endings in TOTALS.items():
                found[name] += lines * path.endswith(endings)
    return found


@pytest.mark.parametrize("name", stated())
def test_a_room_has_at_most_the_lines_that_contributing_states(name: str) -> None:
    most = stated()[name][1]
    assert 0 < counted()[name] <= most, (
        f"{name}: {counted()[name]} lines of code, and CONTRIBUTING allows {most}"
    )


def test_the_limits_are_close() -> None:
    """A limit far above the count says nothing; lower it when lines went."""
    loose = {
        name: (found, stated()[name][1])
        for name, found in counted().items()
        if stated()[name][1] > 1.06 * found + 60
    }
    assert not loose


def test_rooms_come_to_no_more_than_the_totals() -> None:
    assert set(TOTALS) <= set(stated())
    assert len(stated()) > len(TOTALS) + 8


def test_prose_and_imports_are_not_counted() -> None:
    assert (
        python_lines('import os\n\n\ndef f():  # says\n    "Prose."\n    return (\n        1\n    )\n') == 4
    )
    text = '#pragma once\n// says\n#include "a.h"\nint a = 1;  /* one\n*/\n\nchar b[] = "//";\n'
    assert cpp_lines(text) == 2
