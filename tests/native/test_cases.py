"""Random requests are answered alike: with drafts and without, by Python and by the native engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.cases import PythonRuns, cases, differences
from tests.native.native_runs import NativeRuns

VOCABULARY = 290


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


@pytest.mark.parametrize("draft", ["off", "lookup,recycling"])
def test_the_native_engine_answers_as_python(bundle: Path, plain: PythonRuns, draft: str) -> None:
    compare(bundle, plain, draft, range(2, 3), 60)


@pytest.mark.slow
@pytest.mark.parametrize("draft", ["off", "lookup", "lookup,recycling"])
def test_thousands_of_answers_are_pythons(bundle: Path, plain: PythonRuns, draft: str) -> None:
    compare(bundle, plain, draft, range(100, 120), 100)


def compare(bundle: Path, plain: PythonRuns, draft: str, seeds: range, count: int) -> None:
    runs = NativeRuns(bundle, draft)
    try:
        for seed in seeds:
            assert differences(plain, runs, cases(seed, count, VOCABULARY)) == []
    finally:
        runs.close()
