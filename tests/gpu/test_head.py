"""HeadTopK in WGSL: block sums and the best entries; with the host's end, the bits of the whole op."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from tests.fixtures.nightly import every
from tests.gpu.head_cases import check_reduced, check_refined, random_logits, reduced
from tests.kernels.float_rows import same_bits
from tests.kernels.head_finish import HeadShape, finish
from tests.kernels.head_sums import candidates_of
from tests.kernels.quant_rows import INT_FORMATS, SCALAR, random_packed


@pytest.mark.parametrize(("rows", "k"), [(5, 8), (1000, 64), (1024, 1), (3001, 64), (20000, 64)])
def test_the_best_and_the_sums_of_logits(rows: int, k: int, device: GpuDevice) -> None:
    check_reduced(device, random_logits(2, rows, rows), k, temperature=0.7)


def test_what_is_no_number_is_never_among_the_best(device: GpuDevice) -> None:
    logits = random_logits(1, 1100, 1)
    logits[0, [3, 1050]], logits[0, [4, 9]], logits[0, [20, 30]] = np.nan, -np.inf, [0.0, -0.0]
    out, _ = reduced(device, logits, 64)
    assert np.array_equal(out["candidates"], candidates_of(logits, 64))
    assert np.isnan(out["sums"][0, :, 1]).all()
    few = np.array([[np.nan, -0.0, 0.0, -np.inf]], np.float32)
    assert np.array_equal(reduced(device, few, 4)[0]["candidates"], candidates_of(few, 4))


@pytest.mark.parametrize("softcap", [0.0, 8.0])
def test_with_its_end_on_the_host_it_is_the_whole_op(softcap: float, device: GpuDevice) -> None:
    w, rows = random_packed("q8_0", 2065, 64, 5), 2065
    x = np.random.default_rng(1).normal(0, 2, (3, 64)).astype(np.float32)
    expected = SCALAR.head(w, x, logits=True, softcap=softcap, temperature=1.5)
    out, _ = reduced(device, SCALAR.linear(w, x), 64, softcap, temperature=1.5)
    assert same_bits(out["logits"], expected["logits"])
    ended = finish(HeadShape(rows, 64, softcap, 1.5), out["sums"], out["candidates"])
    assert ended is not None
    for name, value in ended.items():
        assert same_bits(value, expected[name]), name


@pytest.mark.parametrize("format", every(4, INT_FORMATS))
def test_refined_it_is_the_whole_op(format: str, device: GpuDevice) -> None:
    check_refined(device, format, 200, 512, 2)


def test_fewer_entries_than_candidates_are_refined(device: GpuDevice) -> None:
    check_refined(device, "q8_0", 40, 96, 2)


@pytest.mark.slow
@pytest.mark.parametrize("format", INT_FORMATS)
def test_thousands_of_candidates_are_refined(format: str, device: GpuDevice) -> None:
    """A case is a candidate; 1,024 for each of twelve formats."""
    check_refined(device, format, 1000, 768, 16)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "k"), [(262_144, 64), (151_936, 64), (49_152, 20), (300, 64)])
def test_large_vocabularies(rows: int, k: int, device: GpuDevice) -> None:
    """A case is a block of 1,024 entries or a row's list: more than 10,000 in all."""
    for seed in range(4):
        check_reduced(device, random_logits(8, rows, seed), k)
