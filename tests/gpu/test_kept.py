"""The head trimmed to some ids on a GPU: its steps, and with the host's end the bits of the whole op."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.formats import activation_groups
from edgedec.backends.gpu.inputs import TrimmedIds
from edgedec.backends.gpu.shaders import Const
from edgedec.kernels.packing.formats import FORMATS, TILE
from tests.fixtures.nightly import diagonal
from tests.gpu.cases import empty, run
from tests.gpu.chain import ChainStep, follow
from tests.gpu.head_cases import refined
from tests.gpu.linear_cases import KernelCase, linear_consts, quantised
from tests.kernels.float_rows import F32, Array, same_bits
from tests.kernels.head_finish import HeadShape, blocks, finish
from tests.kernels.quant_rows import SCALAR, Packed, random_packed

K = 64


def kept_logits(device: GpuDevice, w: Packed, x: F32, keep: TrimmedIds, first: int, rows: int) -> F32:
    """The logits of kept ids by a table of which ``rows`` rows from ``first`` on are bound."""
    is_float, r, kept = FORMATS[w.format].is_float, len(x), len(keep.ids)
    part = Packed(w.format, rows, w.cols, w.data[first // TILE : -(-(first + rows) // TILE)])
    kernel, consts = linear_consts(part, 1, 16)
    consts |= {"OUTPUTS": rows, "FIRST": first, "STRIDE": w.rows, "HEAD": True, "KEPT": True}
    consts |= {"BIAS": False, "RESIDUAL": False}
    acts = x if is_float else quantised(x, 1)
    inputs = (part.data, acts, keep.tiles, part.data, empty(r * kept))
    grid, facts = (len(keep.tiles), 1, 1), {"rows": r, "kept": kept}
    tiny = w.format == "mxfp4"  # its least two scales are subnormal
    case = KernelCase(kernel, consts, inputs, {5: empty(r * kept)}, grid, facts, subnormals=tiny)
    return np.frombuffer(run(device, case)[5], np.float32).reshape(r, kept)


def ended(device: GpuDevice, w: Packed, x: F32, keep: TrimmedIds, logits: F32) -> dict[str, Array] | None:
    """The results of the head from its kept logits on."""
    r, kept = logits.shape
    lists = blocks(w.rows)
    buffers: dict[str, Array] = {
        "logits": logits.copy(),
        "sums": empty(r * blocks(kept) * 3).reshape(r, -1, 3),
        "candidates": np.zeros((r, K, 2), np.uint32),
        "ids": keep.ids.astype(np.uint32),
    }
    chain = [
        step("sums", {"ROWS": w.rows, "SOFTCAP": 9.0}, "logits sums", blocks(kept), r),
        step("best", {"COUNT": w.rows, "K": K, "LOGITS": True}, "logits logits best0", lists, r),
    ]
    buffers["best0"] = np.zeros((r, lists, K, 2), np.uint32)
    last = "best0"
    if lists > 1:
        consts = {"COUNT": lists * K, "K": K, "LOGITS": False, "KEPT": False}
        assert lists * K <= 1024
        chain.append(step("best", consts, "best0 best0 best1", 1, r))
        buffers["best1"], last = np.zeros((r, 1, K, 2), np.uint32), "best1"
    names = f"{last} logits candidates ids"
    chain.append(step("candidates", {"K": K, "ROWS": w.rows}, names, 1, r))
    follow(device, chain, buffers, {"rows": r, "inverse": 1.0, "kept": kept})
    fine = None
    if not FORMATS[w.format].is_float:
        assert activation_groups(w.cols)
        fine, _ = refined(device, w, x, buffers["candidates"])
    shape = HeadShape(w.rows, K, 9.0, kept=kept)
    return finish(shape, buffers["sums"], buffers["candidates"], fine)


def step(name: str, consts: dict[str, Const], bind: str, groups: int, r: int) -> ChainStep:
    names = bind.split()
    writes = ("logits", "sums") if name == "sums" else (names[2],)
    return ChainStep(f"head_topk/{name}", {"KEPT": True, **consts}, names, writes, (groups, r, 1))


def some(count: int, rows: int) -> TrimmedIds:
    ids = np.sort(np.random.default_rng(count).choice(rows, count, replace=False)).astype(np.int64)
    return TrimmedIds.of(ids)


SIZES = [(200, 37), (2065, 1500), (2065, 3)]
"""Rows of a head, and those that are kept."""
DECODED = ["q8_0", "q4_k", "q6_k", "mxfp4", "f16", "bf16"]


@pytest.mark.parametrize(("size", "format"), diagonal(SIZES, DECODED))
def test_a_trimmed_head_is_that_of_the_cpu(format: str, size: tuple[int, int], device: GpuDevice) -> None:
    (rows, count), cols = size, 256
    w, keep = random_packed(format, rows, cols, 5), some(count, rows)
    x = np.random.default_rng(1).normal(0, 2, (3, cols)).astype(np.float32)
    logits = kept_logits(device, w, x, keep, 0, rows)
    assert same_bits(logits, SCALAR.linear(w, x)[:, keep.ids])
    refines = not FORMATS[format].is_float
    expected = SCALAR.head(w, x, K, keep.ids, refined=refines, softcap=9.0)
    found = ended(device, w, x, keep, logits)
    assert found is not None
    for name, value in found.items():
        assert same_bits(value, expected[name]), name


@pytest.mark.parametrize("format", ["q8_0", "f16"])
def test_each_part_of_a_table_computes_its_own_kept_ids(format: str, device: GpuDevice) -> None:
    w, keep = random_packed(format, 200, 256, 5), some(60, 200)
    x = np.random.default_rng(1).normal(0, 2, (2, 256)).astype(np.float32)
    whole = SCALAR.linear(w, x)[:, keep.ids]
    for first, rows in ((0, 96), (96, 104)):
        found = kept_logits(device, w, x, keep, first, rows)
        here = (keep.ids >= first) & (keep.ids < first + rows)
        assert same_bits(found[:, here], whole[:, here])
        assert (found[:, ~here].view(np.uint32) == 0xABABABAB).all()


def test_tiles_of_kept_ids_say_where_each_goes() -> None:
    keep = TrimmedIds.of(np.array([1, 3, 17, 40], np.int64))
    assert keep.tiles[:, 0].tolist() == [0, 1, 2]
    rows, columns = np.nonzero(keep.tiles[:, 1:] != 0xFFFFFFFF)
    assert (keep.tiles[rows, 0] * TILE + columns).tolist() == keep.ids.tolist()
    assert keep.tiles[:, 1:][rows, columns].tolist() == [0, 1, 2, 3]
