"""Kernels in a browser: the same sources, the same bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.gpu import linear_cases
from tests.gpu.chromium import Browser, browser
from tests.kernels.quant_rows import FORMATS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def test_a_browser_is_exact_with_the_variants_that_the_probe_chooses(page: Browser) -> None:
    found = page.arithmetic()
    assert found.exact, found.describe()


def test_activations_and_gates(page: Browser) -> None:
    rng = np.random.default_rng(0)
    shapes = [(m, cols, terms) for m in (1, 7) for cols in (33, 576) for terms in (1, 2)]
    made = [linear_cases.quantise_case(linear_cases.activations(m, c, rng), t) for m, c, t in shapes]
    made += [linear_cases.gated_case(100, 50, activation, rng) for activation in range(3)]
    assert list(page.differences(made)) == []


@pytest.mark.parametrize("format", FORMATS)
def test_ten_thousand_products(page: Browser, format: str) -> None:
    """Seven hundred for each of the fifteen formats."""
    assert list(page.differences(linear_cases.linear_cases(format, 7, 100, seed=2))) == []
