"""Norms, embeddings, attention and the head in a browser: the bits that the other runner has checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from tests.gpu import adapters, attention
from tests.gpu.chromium import Browser, browser
from tests.gpu.head_cases import check_reduced, check_refined, random_logits
from tests.gpu.test_attention import MODELS
from tests.gpu.test_embedding import case
from tests.gpu.test_rows import norm_case
from tests.kernels.attention import Model
from tests.kernels.quant_rows import FLOAT_FORMATS, INT_FORMATS
from tests.kernels.test_tree_attention import random_tree

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def device() -> GpuDevice:
    return adapters.device()


@pytest.mark.parametrize("dim", [16, 33, 576, 640, 1536])
def test_ten_thousand_norms(page: Browser, dim: int) -> None:
    """Rows; 2,000 for each of five sizes."""
    made = [norm_case(seed, 1000, dim, residual=bool(seed), epsilon=1e-5) for seed in range(2)]
    assert list(page.differences(made)) == []


@pytest.mark.parametrize("format", [*INT_FORMATS, *FLOAT_FORMATS])
def test_ten_thousand_embeddings(page: Browser, format: str) -> None:
    """Rows; 700 for each of fifteen formats."""
    assert list(page.differences([case(format, 300, 512, 700, 1)])) == []


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=lambda one: f"{one.heads}-{one.kv_heads}-{one.dim}")
def test_ten_thousand_heads(page: Browser, device: GpuDevice, model: Model, int8: bool) -> None:
    """Heads of tokens; more than 640 for each of eight shapes and two storages."""
    rng, done, seed = np.random.default_rng(model.dim), 0, 0
    while done < 640:
        count, length, seed = int(rng.integers(8, 24)), int(rng.integers(0, 200)), seed + 1
        varied = replace(model, seed=seed, int8=int8)
        cases = attention.check(device, varied, random_tree(seed, count), length, 230)
        assert list(page.differences(cases)) == []
        done += count * model.heads


@pytest.mark.parametrize(("rows", "k"), [(262_144, 64), (151_936, 64), (49_152, 20), (300, 64)])
def test_large_vocabularies(page: Browser, device: GpuDevice, rows: int, k: int) -> None:
    assert list(page.differences(check_reduced(device, random_logits(2, rows, 1), k))) == []


@pytest.mark.parametrize("format", INT_FORMATS)
def test_ten_thousand_candidates(page: Browser, device: GpuDevice, format: str) -> None:
    """1,024 for each of twelve formats."""
    assert list(page.differences(check_refined(device, format, 1000, 512, 16))) == []
