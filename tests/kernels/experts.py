"""Layers of random experts, calls of the op on every row, and its definition over single experts."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.kernels import library
from edgedec.kernels.packing.layout import pack
from tests.kernels.float_rows import pointer
from tests.kernels.quant_rows import ACTIVATIONS, F32, SCALAR, Packed, Runner, activated, random_packed

ALIGNMENT, PART = 4096, 64
PAIRS = 512


@dataclass(frozen=True)
class Layer:
    """A layer of random experts, each a gate, an up and a down matrix."""

    experts: tuple[tuple[Packed, Packed, Packed], ...]
    chosen: int
    sigmoid: bool = False
    normalise: bool = True
    activation: str = "silu"
    biases: F32 | None = None
    """Of each expert: of gate, up and down, f32[experts, 2 * width + cols]."""
    epsilon: float = 0.0
    scale: float = 1.0

    @property
    def formats(self) -> bytes:
        return ",".join(one.format for one in self.experts[0]).encode()

    @property
    def width(self) -> int:
        return self.experts[0][0].rows

    @property
    def cols(self) -> int:
        return self.experts[0][0].cols

    def sizes(self, pairs: int = PAIRS) -> NDArray[np.int32]:
        shape = [self.width, self.cols, len(self.experts), self.chosen]
        flags = [self.sigmoid, self.normalise, ACTIVATIONS.index(self.activation), self.biases is not None]
        return np.array([*shape, *flags, pairs], np.int32)

    @property
    def factors(self) -> F32:
        return np.array([self.epsilon, self.scale], np.float32)

    @property
    def data(self) -> NDArray[np.uint8]:
        """u8[experts, stride], aligned as a bundle's file is."""
        rows = []
        for expert, parts in enumerate(self.experts):
            row = b""
            for part in parts:
                row += bytes(-len(row) % PART) + part.data.tobytes()
            if self.biases is not None:
                row += bytes(-len(row) % PART) + self.biases[expert].tobytes()
            rows.append(row + bytes(-len(row) % ALIGNMENT))
        packed = np.frombuffer(b"".join(rows), np.uint8)
        room = np.empty(packed.size + ALIGNMENT, np.uint8)
        start = -room.ctypes.data % ALIGNMENT
        aligned = room[start : start + packed.size]
        aligned[:] = packed
        return aligned.reshape(len(rows), -1)

    def kernel_stride(self) -> int:
        """Bytes of an expert as the kernels count them."""
        stride = library.load().edgedec_experts_stride
        stride.restype = ctypes.c_size_t
        return int(stride(self.formats, pointer(self.sizes()), pointer(self.factors)))


def random_layer(
    formats: tuple[str, str, str],
    experts: int,
    width: int,
    cols: int,
    seed: int = 0,
    biased: bool = False,
    **rules: object,
) -> Layer:
    """Return a layer whose experts differ."""
    shapes = ((width, cols), (width, cols), (cols, width))
    made = tuple(
        tuple(
            random_packed(format, *shape, seed=seed + 3 * expert + i)
            for i, (format, shape) in enumerate(zip(formats, shapes, strict=True))
        )
        for expert in range(experts)
    )
    rng = np.random.default_rng(seed)
    biases = rng.normal(0, 1, (experts, 2 * width + cols)).astype(np.float32) if biased else None
    return Layer(made, biases=biases, **rules)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Inputs:
    """The inputs of a call; ``choice``, ``factor`` and ``residual`` may be None."""

    x: F32
    scores: F32
    choice: F32 | None = None
    factor: F32 | None = None
    residual: F32 | None = None

    def token(self, t: int) -> Inputs:
        """Return the inputs of one token alone."""
        residual = None if self.residual is None else self.residual[t : t + 1].copy()
        return Inputs(
            self.x[t : t + 1].copy(), self.scores[t : t + 1].copy(), self.choice, self.factor, residual
        )


def random_inputs(layer: Layer, m: int, seed: int = 0, extras: bool = False) -> Inputs:
    """Return inputs of ``m`` tokens, with all optional ones where ``extras`` says so."""
    rng, experts = np.random.default_rng(seed), len(layer.experts)

    def normal(*shape: int) -> F32:
        return rng.normal(0, 1, shape).astype(np.float32)

    x, scores = normal(m, layer.cols), normal(m, experts)
    if not extras:
        return Inputs(x, scores)
    return Inputs(x, scores, normal(experts), np.abs(normal(experts)), normal(m, layer.cols))


def run(
    runner: Runner, layer: Layer, inputs: Inputs, pairs: int = PAIRS, stored: tuple[Store, int] | None = None
) -> F32:
    """Return the op's output f32[m, cols] on a row; ``stored``: a store, and where its file has the layer."""
    out = np.full(inputs.x.shape, np.nan, np.float32)
    given = (inputs.x, inputs.scores, inputs.choice, inputs.factor, inputs.residual)
    shape = [pointer(array) for array in (layer.sizes(pairs), layer.factors)]
    data = pointer(None if stored else layer.data)
    store, offset = (stored[0].number, stored[1]) if stored else (0, 0)
    where = (data, ctypes.c_int64(store), ctypes.c_uint64(offset))
    arrays = [pointer(array) for array in given]
    rest = (*arrays, len(inputs.x), pointer(out))
    runner.call("edgedec_experts", runner.row.encode(), layer.formats, *shape, *where, *rest)
    return out


class Store:
    """An open store of experts over a file, in the library of a row."""

    def __init__(
        self, file: Path, slot: int, slots: int, *, lanes: int = 2, direct: bool = False, kernels: Any = None
    ) -> None:
        self._library = kernels or library.load()
        opened = self._library.edgedec_open_store
        opened.restype = ctypes.c_int64
        error = ctypes.c_int()
        sizes = (ctypes.c_size_t(slot), ctypes.c_size_t(slots))
        self.number = opened(str(file).encode(), *sizes, lanes, int(direct), ctypes.byref(error))
        self.error = error.value

    def __enter__(self) -> Store:
        assert self.number > 0, self.error
        return self

    def __exit__(self, *_: object) -> None:
        self._library.edgedec_close_store(ctypes.c_int64(self.number))

    def trace(self, most: int) -> None:
        """Note what passes hold, as at most so many numbers."""
        self._library.edgedec_trace_store(ctypes.c_int64(self.number), ctypes.c_size_t(most))

    def traced(self) -> list[int]:
        """Those numbers."""
        found = np.empty(1 << 10, np.int32)
        copy = self._library.edgedec_store_trace
        copy.restype = ctypes.c_size_t
        return found[
            : copy(ctypes.c_int64(self.number), pointer(found), ctypes.c_size_t(found.size))
        ].tolist()

    def interrupt(self, now: bool) -> None:
        """End waits of passes, or let them wait again."""
        self._library.edgedec_interrupt_store(ctypes.c_int64(self.number), int(now))

    def counts(self) -> tuple[int, int, int]:
        """Experts that passes held, those that were there, and bytes read."""
        found = np.zeros(4, np.uint64)
        assert self._library.edgedec_store_counts(ctypes.c_int64(self.number), pointer(found)) == 0
        held, hits, read, _ = found.tolist()
        return held, hits, read


def choose(row: str, layer: Layer, inputs: Inputs) -> tuple[NDArray[np.int32], F32]:
    """Return experts and weights of the first token, as a row of floats chooses them."""
    experts, weights = np.empty(layer.chosen, np.int32), np.empty(layer.chosen, np.float32)
    arrays = [
        pointer(array)
        for array in (layer.sizes(), layer.factors, inputs.scores, inputs.choice, inputs.factor)
    ]
    status = library.load().edgedec_choose_experts(
        row.encode(), layer.formats, *arrays, pointer(experts), pointer(weights)
    )
    assert status == 0
    return experts, weights


def defined(layer: Layer, inputs: Inputs) -> F32:
    """Return the output by the op's definition: one token and expert at a time, on the scalar row."""
    out = []
    for t in range(len(inputs.x)):
        one = inputs.token(t)
        y = np.zeros(layer.cols, np.float32) if one.residual is None else one.residual[0]
        for expert, weight in zip(*choose("scalar", layer, one), strict=True):
            y = fma(weight, product(layer, expert, one.x), y)
        out.append(y)
    return np.stack(out)


def product(layer: Layer, expert: int, x: F32) -> F32:
    """What an expert makes of one token x[1, cols], on the scalar row."""
    gate, up, down = layer.experts[expert]
    if layer.biases is None:
        return SCALAR.linear(down, SCALAR.gated_mlp(gate, up, x, layer.activation))[0]
    biases = np.split(layer.biases[expert], [layer.width, 2 * layer.width])
    both = [SCALAR.linear(one, x) + bias for one, bias in zip((gate, up), biases, strict=False)]
    # Matrices of ones and zeros hand the sums on as they are.
    ones = np.eye(2 * layer.width, dtype=np.float32)
    halves = [
        Packed("f32", layer.width, 2 * layer.width, pack("f32", rows.view(np.uint8)))
        for rows in np.split(ones, 2)
    ]
    inner = SCALAR.gated_mlp(*halves, np.concatenate(both, axis=1), layer.activation)
    found: F32 = (SCALAR.linear(down, inner) + biases[2])[0]
    return found


def fma(weight: np.float32, x: F32, y: F32) -> F32:
    """Return weight * x + y, rounded once: the product is exact in 64 bits, the sum nearly so in 80."""
    return (np.longdouble(weight) * x.astype(np.longdouble) + y.astype(np.longdouble)).astype(np.float32)


def expected(layer: Layer, inputs: Inputs) -> tuple[list[int], list[float]]:
    """Whom a token chooses and their weights, in 64 bits."""
    scores = inputs.scores[0].astype(np.float64)
    gated = 1 / (1 + np.exp(-scores)) if layer.sigmoid else np.exp(scores - scores.max())
    keys = scores if not layer.sigmoid else gated + (0 if inputs.choice is None else inputs.choice)
    chosen = sorted(np.argsort(-keys, kind="stable")[: layer.chosen].tolist())
    divisor = (
        gated[chosen].sum() + layer.epsilon if layer.normalise else 1.0 if layer.sigmoid else gated.sum()
    )
    factor = np.ones(len(scores)) if inputs.factor is None else inputs.factor
    return chosen, [gated[e] / divisor * layer.scale * factor[e] for e in chosen]


def dense(layer: Layer, inputs: Inputs) -> F32:
    """The op in 64 bits, from its experts' matrices."""
    out = inputs.residual.astype(np.float64) if inputs.residual is not None else np.zeros(inputs.x.shape)
    for t in range(len(inputs.x)):
        for expert, weight in zip(*expected(layer, inputs.token(t)), strict=True):
            gate, up, down = (part.dense.astype(np.float64) for part in layer.experts[expert])
            biases = np.zeros(2 * layer.width + layer.cols) if layer.biases is None else layer.biases[expert]
            of_gate, of_up, of_down = np.split(biases, [layer.width, 2 * layer.width])
            g, u = gate @ inputs.x[t] + of_gate, up @ inputs.x[t] + of_up
            out[t] += weight * (down @ activated(layer.activation, g, u) + of_down)
    return out.astype(np.float32)
