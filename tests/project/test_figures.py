"""A figure has a commit, a date and a machine, and stands in measured.md, not in a guide."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.measure.page import excess_words
from tests.conftest import ROOT
from tests.project.sources import relative

MEASURED = (ROOT / "docs/measured.md").read_text(encoding="utf-8")
GUIDES = sorted((ROOT / "docs/guide").glob("*.md"))
CODE = re.compile(r"^```.*?^```|`[^`]*`", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"(?<![\d.])[01]\.\d{2,}(?![\d.])|\b\d+ tok/s|\b\d[\d.]* times as (?:fast|long|quick)")
"""A ratio, or a speed; neither versions nor sizes."""
PUBLISHED = {"0.23"}
"""Constants of other people, with their source."""
TABLE = re.compile(r"<!-- table (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
TABLES = dict(TABLE.findall(MEASURED))
NOT_YET = "Not measured yet.\n"
CONDITIONS = re.compile(r"Commits? .*?`[0-9a-f]{7,}`.*? 20\d\d-\d\d-\d\d[^.]*, \w+", re.DOTALL)
COMMIT = re.compile(r"`[0-9a-f]{7,}`")


@pytest.mark.parametrize("guide", GUIDES, ids=relative)
def test_a_guide_has_no_figures(guide: Path) -> None:
    found = FIGURE.findall(CODE.sub("", guide.read_text(encoding="utf-8")))
    assert set(found) - PUBLISHED == set()


def test_figures_are_found() -> None:
    text = "0.87 of it, 28 tok/s, 1.4 times as long, Python 3.11, glibc 2.28, 1.1 GB, 0.3.36"
    assert FIGURE.findall(text) == ["0.87", "28 tok/s", "1.4 times as long"]


@pytest.mark.parametrize("name", [name for name, text in TABLES.items() if text != NOT_YET])
def test_a_table_has_commit_date_and_machine(name: str) -> None:
    assert CONDITIONS.search(TABLES[name].partition("\n|")[0])


def test_every_table_stands_between_its_marks() -> None:
    assert "\n|" not in TABLE.sub("", MEASURED)


def test_the_page_is_short() -> None:
    assert excess_words(MEASURED) == 0


def test_an_experiment_has_technique_model_figure_and_commit() -> None:
    lines = (ROOT / "docs/experiments.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if len(row) != 4 or not all(cell.strip() for cell in row)] == []
    assert [row for row in rows if not COMMIT.fullmatch(row[3].strip())] == []
