"""Random requests are answered alike with drafts and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.tiny_models import tiny_bundle
from tests.native.cases import PythonRuns, cases, differences

VOCABULARY = 290


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def plain(bundle: Path) -> Iterator[PythonRuns]:
    runs = PythonRuns(bundle)
    yield runs
    runs.close()


def test_drafts_change_no_answer(bundle: Path, plain: PythonRuns) -> None:
    drafting = PythonRuns(bundle, "lookup,recycling")
    every = cases(1, 60, VOCABULARY)
    try:
        assert differences(plain, drafting, every) == []
        assert sum(drafting.run(case).drafted for case in every[:20]) > 0
    finally:
        drafting.close()
