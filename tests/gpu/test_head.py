"""HeadTopK in WGSL: block sums and the best entries; with the host's end, the bits of the whole op."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.formats import activation_groups, constants
from edgedec.kernels.head_finish import BLOCK, HeadShape, blocks, finish
from edgedec.kernels.packing.formats import FORMATS, TILE
from tests.gpu import adapters
from tests.gpu.cases import empty
from tests.gpu.chain import ChainStep, follow
from tests.kernels.float_rows import F32, Array, same_bits
from tests.kernels.head_sums import block_sums, candidates_of
from tests.kernels.quant_rows import INT_FORMATS, SCALAR, Packed, random_packed


@pytest.fixture(params=adapters.found(), ids=lambda one: one.name.split()[0])
def device(request: pytest.FixtureRequest) -> GpuDevice:
    return adapters.opened(request.param)


def steps(r: int, rows: int, k: int, softcap: float = 0.0) -> list[ChainStep]:
    """Sums, the best of blocks, lists joined until one is left, candidates."""
    lists = blocks(rows)
    found = [
        ChainStep(
            "head_topk/sums",
            {"ROWS": rows, "SOFTCAP": softcap},
            ("logits", "sums"),
            ("logits", "sums"),
            (lists, r, 1),
        ),
        best_step("logits", "best0", rows, k, r, logits=True),
    ]
    level = 0
    while lists > 1:
        found.append(best_step(f"best{level}", f"best{level + 1}", lists * k, k, r, logits=False))
        lists, level = -(-lists * k // BLOCK), level + 1
    last = ("candidates",)
    bind = (f"best{level}", "logits", "candidates")
    return [
        *found,
        ChainStep("head_topk/candidates", {"K": k, "ROWS": rows}, bind, last, (-(-k // 64), r, 1)),
    ]


def best_step(source: str, out: str, count: int, k: int, r: int, *, logits: bool) -> ChainStep:
    consts = {"COUNT": count, "K": k, "LOGITS": logits}
    return ChainStep("head_topk/best", consts, (source, source, out), (out,), (-(-count // BLOCK), r, 1))


def reduced(
    device: GpuDevice, logits: F32, k: int, softcap: float = 0.0, temperature: float = 1.0
) -> dict[str, Array]:
    r, rows = logits.shape
    buffers: dict[str, Array] = {
        "logits": logits,
        "sums": empty(r * blocks(rows) * 3).reshape(r, -1, 3),
        "candidates": np.zeros((r, k, 2), np.uint32),
    }
    chain = steps(r, rows, k, softcap)
    for step in chain[1:-1]:
        buffers[step.writes[0]] = np.zeros((r, step.grid[0], k, 2), np.uint32)
    follow(device, chain, buffers, {"rows": r, "inverse": np.float32(1) / np.float32(temperature)})
    return buffers


def random_logits(r: int, rows: int, seed: int) -> F32:
    """Some of them equal, so that ids decide."""
    rng = np.random.default_rng(seed)
    logits = (rng.standard_normal((r, rows)) * 4).astype(np.float32)
    return np.round(logits * 64) / np.float32(64) if seed % 2 else logits


@pytest.mark.parametrize(("rows", "k"), [(5, 8), (1000, 64), (1024, 1), (3001, 64), (20000, 64)])
def test_the_best_and_the_sums_of_logits(rows: int, k: int, device: GpuDevice) -> None:
    logits = random_logits(2, rows, rows)
    out = reduced(device, logits, k, temperature=0.7)
    assert np.array_equal(out["candidates"], candidates_of(logits, k))
    assert same_bits(out["sums"], block_sums(logits, 0.7))


def test_what_is_no_number_is_never_among_the_best(device: GpuDevice) -> None:
    logits = random_logits(1, 1100, 1)
    logits[0, [3, 1050]], logits[0, [4, 9]], logits[0, [20, 30]] = np.nan, -np.inf, [0.0, -0.0]
    out = reduced(device, logits, 64)
    assert np.array_equal(out["candidates"], candidates_of(logits, 64))
    assert np.isnan(out["sums"][0, :, 1]).all()
    few = np.array([[np.nan, -0.0, 0.0, -np.inf]], np.float32)
    assert np.array_equal(reduced(device, few, 4)["candidates"], candidates_of(few, 4))


@pytest.mark.parametrize("softcap", [0.0, 8.0])
def test_with_its_end_on_the_host_it_is_the_whole_op(softcap: float, device: GpuDevice) -> None:
    w, rows = random_packed("q8_0", 2065, 64, 5), 2065
    x = np.random.default_rng(1).normal(0, 2, (3, 64)).astype(np.float32)
    expected = SCALAR.head(w, x, logits=True, softcap=softcap, temperature=1.5)
    out = reduced(device, SCALAR.linear(w, x), 64, softcap, temperature=1.5)
    assert same_bits(out["logits"], expected["logits"])
    ended = finish(HeadShape(rows, 64, softcap, 1.5), out["sums"], out["candidates"])
    for name in ("values", "ids", "logsumexp", "entropy"):
        assert same_bits(getattr(ended, name), expected[name]), name


def refined(device: GpuDevice, w: Packed, x: F32, candidates: Array) -> F32:
    """The two-term logits of candidates."""
    r, k = candidates.shape[:2]
    spec, groups = FORMATS[w.format], activation_groups(w.cols)
    buffers: dict[str, Array] = {
        "weights": w.data,
        "x": x,
        "acts": np.zeros((2 * r, groups, 12), np.uint32),
        "candidates": candidates,
        "fine": np.zeros((r, k), np.float32),
    }
    quantise = {"COLS": w.cols, "GROUPS": groups, "TERMS": 2, "HEAD": True}
    shape = {**constants(w.format), "RECORDS": spec.records(w.cols), "GROUPS": groups, "K": k}
    cut = w.rows // 2 // TILE * TILE  # the table is bound in two parts
    buffers["rest"] = w.data[cut // TILE :]
    chain = [
        ChainStep("quant_linear/quantise", quantise, ("x", "acts"), ("acts",), (groups // 8, r, 1)),
        *(
            ChainStep(
                "head_topk/refine",
                {**shape, "FIRST": first, "ROWS": rows},
                (part, "acts", "candidates", "fine"),
                ("fine",),
                (k, r, 1),
            )
            for part, first, rows in (("weights", 0, cut), ("rest", cut, w.rows - cut))
        ),
    ]
    follow(device, chain, buffers, {"rows": r})
    return np.ascontiguousarray(buffers["fine"])


def check_refined(device: GpuDevice, format: str, rows: int, cols: int, r: int) -> None:
    """The whole head from coarse logits on, refined."""
    w = random_packed(format, rows, cols, 5)
    x = np.random.default_rng(cols).normal(0, 2, (r, cols)).astype(np.float32)
    expected = SCALAR.head(w, x, logits=True, refined=True, softcap=9.0)
    out = reduced(device, SCALAR.linear(w, x), 64, 9.0)
    logits = np.array(out["logits"])
    ended = finish(
        HeadShape(rows, 64, 9.0),
        out["sums"],
        out["candidates"],
        refined(device, w, x, out["candidates"]),
        logits,
    )
    assert same_bits(logits, expected["logits"])
    for name in ("values", "ids", "logsumexp", "entropy"):
        assert same_bits(getattr(ended, name), expected[name]), name


@pytest.mark.parametrize("format", INT_FORMATS)
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
        logits = random_logits(8, rows, seed)
        out = reduced(device, logits, k, temperature=1.0)
        assert np.array_equal(out["candidates"], candidates_of(logits, k))
        assert same_bits(out["sums"], block_sums(logits))
