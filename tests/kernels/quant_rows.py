"""Random packed weights, and calls of the quantised ops of every row through the C ABI."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgedec.kernels import library
from edgedec.kernels.packing import layout
from tests.fixtures.random_rows import random_rows
from tests.kernels.float_rows import pointer

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
FORMATS = tuple(layout.FORMATS)
ACTIVATIONS = ("silu", "gelu_tanh", "clamped_silu")
"""Those of a gate, by their numbers in the C ABI."""
INT_FORMATS = tuple(name for name, spec in layout.FORMATS.items() if not spec.is_float)
FLOAT_FORMATS = tuple(name for name, spec in layout.FORMATS.items() if spec.is_float)


def activated(activation: str, gate: npt.NDArray[np.float64], up: npt.NDArray[np.float64]) -> Array:
    """The product of an activated gate and ``up``, in 64 bits."""
    if activation == "clamped_silu":
        gate, up = np.minimum(gate, 7), np.clip(up, -7, 7) + 1
    curve = {
        "silu": -gate,
        "gelu_tanh": -2 * np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3),
        "clamped_silu": -1.702 * gate,
    }
    with np.errstate(over="ignore"):  # infinity is right there: the activation is 0
        return gate / (1 + np.exp(curve[activation])) * up


@dataclass(frozen=True)
class Packed:
    """A random packed matrix and its meaning."""

    format: str
    rows: int
    cols: int
    data: npt.NDArray[np.uint8]

    @property
    def dense(self) -> F32:
        return layout.dequantise(self.format, self.data, self.rows, self.cols)


def random_packed(format: str, rows: int, cols: int, seed: int) -> Packed:
    """A random matrix, see ``random_rows``."""
    return Packed(format, rows, cols, layout.pack(format, random_rows(format, rows, cols, seed)))


@dataclass(frozen=True)
class Runner:
    """A kernel library and one of its rows."""

    row: str
    path: Path | None = None

    def call(self, function: str, *arguments: Any) -> None:
        status = getattr(library.load(self.path), function)(*arguments)
        assert status == 0, f"{function} on {self.row} returned {status}"

    def linear(
        self, w: Packed, x: F32, bias: F32 | None = None, residual: F32 | None = None, terms: int = 1
    ) -> F32:
        out = np.full((len(x), w.rows), np.nan, dtype=np.float32)
        name, format = self.row.encode(), w.format.encode()
        self.call(
            "edgedec_quant_linear",
            name,
            format,
            pointer(w.data),
            w.rows,
            w.cols,
            pointer(x),
            len(x),
            terms,
            pointer(bias),
            pointer(residual),
            pointer(out),
        )
        return out

    def gated_mlp(self, gate: Packed, up: Packed, x: F32, activation: str = "silu") -> F32:
        out = np.full((len(x), gate.rows), np.nan, dtype=np.float32)
        self.call(
            "edgedec_gated_mlp",
            self.row.encode(),
            gate.format.encode(),
            pointer(gate.data),
            up.format.encode(),
            pointer(up.data),
            gate.rows,
            gate.cols,
            ACTIVATIONS.index(activation),
            pointer(x),
            len(x),
            pointer(out),
        )
        return out

    def quantise(self, x: F32) -> tuple[Array, Array, Array]:
        m, cols = x.shape
        k = (cols + 255) // 256 * 256
        q, scale, total = (
            np.empty((m, k), np.int8),
            np.empty((m, k // 32), np.float32),
            np.empty((m, k // 16), np.int32),
        )
        self.call(
            "edgedec_quantise",
            self.row.encode(),
            pointer(x),
            m,
            cols,
            pointer(q),
            pointer(scale),
            pointer(total),
        )
        return q, scale, total

    def head(
        self,
        w: Packed,
        x: F32,
        k: int = 64,
        keep: Array | None = None,
        logits: bool = False,
        refined: bool = False,
        softcap: float = 0.0,
        temperature: float = 1.0,
    ) -> dict[str, Array]:
        r = len(x)
        out: dict[str, Array] = {
            "values": np.empty((r, k), np.float32),
            "ids": np.empty((r, k), np.int32),
            "logsumexp": np.empty(r, np.float32),
            "entropy": np.empty(r, np.float32),
        }
        if logits:
            out["logits"] = np.empty((r, w.rows), np.float32)
        self.call(
            "edgedec_head_topk",
            self.row.encode(),
            w.format.encode(),
            pointer(w.data),
            w.rows,
            w.cols,
            pointer(x),
            r,
            int(refined),
            ctypes.c_float(softcap),
            ctypes.c_float(temperature),
            pointer(keep),
            0 if keep is None else len(keep),
            k,
            *(pointer(out[name]) for name in ("values", "ids", "logsumexp", "entropy")),
            pointer(out.get("logits")),
        )
        return out


SCALAR = Runner("scalar")


def runners() -> list[Runner]:
    """Every row this CPU can run, and those modelled in the test library where it was built."""
    found = [Runner(row) for row in library.available() if row != "scalar"]
    emulated = library.emulated_path()
    if emulated is not None:
        found += [Runner(row, emulated) for row in ("avx512_vnni", "amx", "wasm")]
    return found


def runner_id(runner: Runner) -> str:
    return runner.row + ("-modelled" if runner.path else "")
