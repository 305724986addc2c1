"""Random cases of the linear kernels, with what the CPU's reference row returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from edgedec.backends.gpu.formats import FLOAT_KINDS, activation_groups, constants
from edgedec.backends.gpu.shaders import Const
from edgedec.kernels.packing.formats import FORMATS, TILE
from tests.gpu.cases import KernelCase, empty
from tests.kernels.quant_rows import SCALAR, Packed, random_packed

F32 = npt.NDArray[np.float32]
MOST_ROWS, TILED = 16, 64
_ALONE: dict[str, Const] = {"SIDES": 1, "ACTIVATION": 0}
_ACTIVATIONS = ("silu", "gelu_tanh", "clamped_silu")
Array = npt.NDArray[Any]


def activations(m: int, cols: int, rng: np.random.Generator) -> F32:
    """Numbers of a usual size, with outliers, a group of zeros and, now and then, one of tiny numbers."""
    x = rng.normal(0, 1, (m, cols)).astype(np.float32)
    x[:, rng.integers(0, cols, max(1, cols // 40))] *= 40.0
    x[rng.integers(m), : min(32, cols)] *= rng.choice(np.array([0.0, 1.0, 1e-30], np.float32))
    return x


def quantised(x: F32, terms: int) -> Array:
    """The output that ``quantise.wgsl`` must have: u32[m * terms][groups][12]."""
    m, cols = x.shape
    out = np.zeros((m, terms, activation_groups(cols), 12), np.uint32)
    for term in range(terms):
        q, scale, sums = SCALAR.quantise(np.ascontiguousarray(x))
        out[:, term, :, :8] = q.view(np.uint32).reshape(m, -1, 8)
        out[:, term, :, 8] = scale.view(np.uint32)
        out[:, term, :, 9:11] = sums.view(np.uint32).reshape(m, -1, 2)
        x = x - (q.reshape(m, -1, 32).astype(np.float32) * scale[:, :, None]).reshape(m, -1)[:, :cols]
    return out


def quantise_case(x: F32, terms: int) -> KernelCase:
    m, cols = x.shape
    groups = activation_groups(cols)
    expected = quantised(x, terms).reshape(-1)
    consts: dict[str, Const] = {"COLS": cols, "GROUPS": groups, "TERMS": terms, "HEAD": False, "EACH": 1}
    inputs = (x, np.full_like(expected, 0xABABABAB))
    return KernelCase(
        "quant_linear/quantise", consts, inputs, {2: expected}, (groups // 8, m, 1), {"tokens": m}
    )


def linear_consts(w: Packed, terms: int, rows: int) -> tuple[str, dict[str, Const]]:
    """The kernel of a weight and its constants, without those of its surroundings."""
    spec = FORMATS[w.format]
    if spec.is_float:
        return "quant_linear/float_linear", {"KIND": FLOAT_KINDS[w.format], "COLS": w.cols, **_ALONE}
    sizes: dict[str, Const] = {"RECORDS": spec.records(w.cols), "GROUPS": activation_groups(w.cols), **_ALONE}
    if rows > MOST_ROWS:
        return "quant_linear/tiles", {**constants(w.format), **sizes, "TERMS": terms}
    return "quant_linear/quant_linear", {**constants(w.format), **sizes, "TERMS": terms, "ROWS": rows}


def linear_case(
    w: Packed,
    x: F32,
    rng: np.random.Generator,
    *,
    terms: int = 1,
    rows: int = 16,
    first: int = 0,
    after: int = 0,
) -> KernelCase:
    """One weight that writes its columns of an output, with a bias and a residual at random.

    ``rows``: activations of a workgroup; 64 is the kernel for prompts.
    ``first`` and ``after``: columns of the output before and after the weight's, which stay as they are.
    """
    m, stride = len(x), first + w.rows + after
    kernel, consts = linear_consts(w, terms, rows)
    bias = rng.normal(size=stride).astype(np.float32) if rng.random() < 0.5 else None
    residual = rng.normal(size=(m, stride)).astype(np.float32) if rng.random() < 0.5 else None
    here = slice(first, first + w.rows)
    expected = empty(m * stride).reshape(m, stride).copy()
    expected[:, here] = SCALAR.linear(
        w,
        x,
        None if bias is None else np.ascontiguousarray(bias[here]),
        None if residual is None else np.ascontiguousarray(residual[:, here]),
        terms,
    )
    consts |= {"OUTPUTS": w.rows, "FIRST": first, "STRIDE": stride, "HEAD": False, "KEPT": False}
    consts |= {"BIAS": bias is not None, "RESIDUAL": residual is not None}
    acts = x if FORMATS[w.format].is_float else quantised(x, terms)
    per_group = 16 if FORMATS[w.format].is_float else rows // terms
    none = np.zeros(4, np.float32)
    inputs = (
        w.data,
        acts,
        none if bias is None else bias,
        none if residual is None else residual,
        empty(m * stride),
    )
    grid = (-(-w.rows // (2 * TILE if kernel == "quant_linear/tiles" else TILE)), -(-m // per_group), 1)
    tiny = w.format == "mxfp4"  # its least two scales are subnormal
    return KernelCase(kernel, consts, inputs, {5: expected.reshape(-1)}, grid, {"tokens": m}, subnormals=tiny)


def gated_case(columns: int, m: int, activation: int, rng: np.random.Generator) -> KernelCase:
    """act(gate) * up of one-column products: the reference multiplies by weights of one input."""
    gate = (rng.normal(0, 1, (m, columns)) * np.exp2(rng.integers(-9, 6, (m, columns)))).astype(np.float32)
    up = rng.normal(0, 2, (m, columns)).astype(np.float32)
    flat, factors = (np.ascontiguousarray(one.reshape(-1)) for one in (gate, up))
    expected = _gated(flat, factors, _ACTIVATIONS[activation])
    both = np.concatenate([gate, up], axis=1)
    grid = (-(-columns // 64), m, 1)
    consts: dict[str, Const] = {"COLUMNS": columns, "ACTIVATION": activation, "EACH": 1}
    inputs = (both, empty(flat.size))
    return KernelCase(
        "gated_mlp/gated_mlp", consts, inputs, {2: expected}, grid, {"tokens": m}, subnormals=True
    )


def gated_linear_case(
    gate: Packed, up: Packed, x: F32, activation: int, rows: int, first: int = 0
) -> KernelCase:
    """Both products and the activation in one dispatch; ``rows`` and ``first`` as in ``linear_case``."""
    m, stride = len(x), first + gate.rows
    kernel, consts = linear_consts(gate, 1, rows)
    consts |= {"OUTPUTS": gate.rows, "FIRST": first, "STRIDE": stride, "HEAD": False, "KEPT": False}
    consts |= {"BIAS": False, "RESIDUAL": False, "SIDES": 2, "ACTIVATION": activation}
    expected = empty(m * stride).reshape(m, stride).copy()
    expected[:, first:] = SCALAR.gated_mlp(gate, up, x, _ACTIVATIONS[activation])
    is_float = FORMATS[gate.format].is_float
    inputs = (gate.data, x if is_float else quantised(x, 1), up.data, gate.data, empty(m * stride))
    grid = (-(-gate.rows // TILE), -(-m // (16 if is_float else rows)), 1)
    outputs = {5: expected.reshape(-1)}
    return KernelCase(kernel, consts, inputs, outputs, grid, {"tokens": m}, subnormals=True)


def _gated(gate: F32, up: F32, activation: str) -> F32:
    """The op itself over f32 weights of one input, which is 1: then both products are the weights."""

    def column(values: F32) -> Packed:
        data = np.zeros((-(-values.size // TILE), TILE), np.float32)
        data.reshape(-1)[: values.size] = values
        return Packed("f32", values.size, 1, data.view(np.uint8))

    return SCALAR.gated_mlp(column(gate), column(up), np.ones((1, 1), np.float32), activation)[0]


def columns_for(format: str, rng: np.random.Generator) -> int:
    """A number of inputs that the format allows."""
    spec = FORMATS[format]
    most = {1: 300, 32: 20, 256: 4}[spec.block]
    return spec.block * int(rng.integers(1, most + 1))


def linear_cases(format: str, shapes: int, each: int, seed: int) -> Iterator[KernelCase]:
    """``each`` random data sets for every one of ``shapes`` random shapes, by both kernels in turn."""
    rng = np.random.default_rng(seed)
    for shape in range(shapes):
        cols, outputs = columns_for(format, rng), int(rng.integers(1, 50))
        terms, first, after = int(rng.integers(1, 3)), int(rng.integers(0, 20)), int(rng.integers(0, 20))
        rows = TILED if shape % 2 else terms * int(rng.choice([1, 2, 4, 8]))
        start = int(rng.integers(1 << 30))
        for one in range(each):
            # The constants of a shape, and so its shader, are the same for all its data sets.
            fixed = np.random.default_rng(start)
            data = np.random.default_rng([start, one])
            w = random_packed(format, outputs, cols, start + one)
            x = activations(int(data.integers(1, 80 if rows == TILED else 20)), cols, data)
            yield linear_case(w, x, fixed, terms=terms, rows=rows, first=first, after=after)
