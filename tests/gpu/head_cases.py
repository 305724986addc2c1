"""The steps of HeadTopK on a GPU, and their checks against the CPU."""

from __future__ import annotations

import numpy as np

from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.formats import activation_groups, constants
from edgedec.kernels.packing.formats import FORMATS, TILE
from tests.gpu.cases import KernelCase, empty
from tests.gpu.chain import ChainStep, follow
from tests.kernels.float_rows import F32, Array, same_bits
from tests.kernels.head_finish import BLOCK, HeadShape, blocks, finish
from tests.kernels.head_sums import block_sums, candidates_of
from tests.kernels.quant_rows import SCALAR, Packed, random_packed


def steps(r: int, rows: int, k: int, softcap: float = 0.0) -> list[ChainStep]:
    """Sums, the best of blocks, lists joined until one is left, candidates."""
    lists = blocks(rows)
    found = [
        ChainStep(
            "head_topk/sums",
            {"ROWS": rows, "SOFTCAP": softcap, "KEPT": False},
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
    bind = (f"best{level}", "logits", "candidates", f"best{level}")
    return [
        *found,
        ChainStep(
            "head_topk/candidates", {"K": k, "ROWS": rows, "KEPT": False}, bind, last, (-(-k // 64), r, 1)
        ),
    ]


def best_step(source: str, out: str, count: int, k: int, r: int, *, logits: bool) -> ChainStep:
    consts = {"COUNT": count, "K": k, "LOGITS": logits, "KEPT": False}
    return ChainStep("head_topk/best", consts, (source, source, out), (out,), (-(-count // BLOCK), r, 1))


def reduced(
    device: GpuDevice, logits: F32, k: int, softcap: float = 0.0, temperature: float = 1.0
) -> tuple[dict[str, Array], list[KernelCase]]:
    """The buffers after all steps, and the steps as cases."""
    r, rows = logits.shape
    buffers: dict[str, Array] = {
        "logits": logits,
        "sums": empty(r * blocks(rows) * 3).reshape(r, -1, 3),
        "candidates": np.zeros((r, k, 2), np.uint32),
    }
    chain = steps(r, rows, k, softcap)
    for step in chain[1:-1]:
        buffers[step.writes[0]] = np.zeros((r, step.grid[0], k, 2), np.uint32)
    facts = {"rows": r, "inverse": np.float32(1) / np.float32(temperature)}
    return buffers, follow(device, chain, buffers, facts)


def random_logits(r: int, rows: int, seed: int) -> F32:
    """Some of them equal, so that ids decide."""
    rng = np.random.default_rng(seed)
    logits = (rng.standard_normal((r, rows)) * 4).astype(np.float32)
    return np.round(logits * 64) / np.float32(64) if seed % 2 else logits


def refined(device: GpuDevice, w: Packed, x: F32, candidates: Array) -> tuple[F32, list[KernelCase]]:
    """The two-term logits of candidates, and the steps as cases."""
    r, k = candidates.shape[:2]
    spec, groups = FORMATS[w.format], activation_groups(w.cols)
    buffers: dict[str, Array] = {
        "weights": w.data,
        "x": x,
        "acts": np.zeros((2 * r, groups, 12), np.uint32),
        "candidates": candidates,
        "fine": np.zeros((r, k), np.float32),
    }
    quantise = {"COLS": w.cols, "GROUPS": groups, "TERMS": 2, "HEAD": True, "EACH": 1}
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
    cases = follow(device, chain, buffers, {"rows": r})
    return np.ascontiguousarray(buffers["fine"]), cases


def check_reduced(device: GpuDevice, logits: F32, k: int, temperature: float = 1.0) -> list[KernelCase]:
    """The sums and the best of logits as NumPy finds them; the steps as cases."""
    out, cases = reduced(device, logits, k, temperature=temperature)
    assert np.array_equal(out["candidates"], candidates_of(logits, k))
    assert same_bits(out["sums"], block_sums(logits, temperature))
    return cases


def check_refined(device: GpuDevice, format: str, rows: int, cols: int, r: int) -> list[KernelCase]:
    """The whole head from coarse logits on, refined; its steps as cases."""
    w = random_packed(format, rows, cols, 5)
    x = np.random.default_rng(cols).normal(0, 2, (r, cols)).astype(np.float32)
    expected = SCALAR.head(w, x, logits=True, refined=True, softcap=9.0)
    out, cases = reduced(device, SCALAR.linear(w, x), 64, 9.0)
    fine, more = refined(device, w, x, out["candidates"])
    logits = np.array(out["logits"])
    ended = finish(HeadShape(rows, 64, 9.0), out["sums"], out["candidates"], fine, logits)
    assert same_bits(logits, expected["logits"])
    assert ended is not None
    for name, value in ended.items():
        assert same_bits(value, expected[name]), name
    return [*cases, *more]
