"""Documents use one word for one concept, and README stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.project.sources import documents, relative

README_LINES = 150
FORBIDDEN = {
    r"--at-once|--lines\b|--runs\b": "--batch, --input, --repeat",
    r"\bcompany\b": "batch",
    r"\b(?:place|places) of (?:its|their) own\b": "sequence",
    r"earlier versions?": "nothing was released",
    r"\b[Ww]hat (?:passes|drafts|leaves|stays|goes) (?:cost|costs|is|are|has|have)\b": "name the thing",
}
"""Pattern to the word of the glossary in CONTRIBUTING.md, or to the reason."""


@pytest.mark.parametrize("document", documents(), ids=relative)
def test_documents_use_the_words_of_the_glossary(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    found = {match.group(): word for bad, word in FORBIDDEN.items() for match in re.finditer(bad, text)}
    assert found == {}


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= README_LINES
