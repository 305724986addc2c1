"""Time of the products of each kernel row: ``python -P -m docs.measure.products [FORMAT...]``.

Shows picoseconds a weight and token, of one thread with weights that its cache keeps, so without memory.
``EDGEDEC_KERNELS`` names another library.
"""

from __future__ import annotations

import ctypes
import sys
import time

import numpy as np

from edgedec.kernels import library
from edgedec.kernels.packing.formats import FORMATS

COLS, BYTES, REPEATS = 512, 600_000, 40
TOKENS = (1, 2, 4, 5, 6, 8, 16)


def picoseconds(row: str, name: str, tokens: int) -> float:
    """The least of several calls of QuantLinear with one thread."""
    spec, rng = FORMATS[name], np.random.default_rng(0)
    tile = spec.record_bytes * spec.records(COLS)
    rows = BYTES // tile * 16
    weights = rng.integers(0, 60, rows // 16 * tile, dtype=np.uint8)  # no scale is infinite
    x = rng.standard_normal((tokens, COLS), dtype=np.float32)
    out = np.empty((tokens, rows), np.float32)
    at = [ctypes.c_void_p(array.ctypes.data) for array in (weights, x, out)]
    call, least = library.function("edgedec_quant_linear"), np.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        call(row.encode(), name.encode(), at[0], rows, COLS, at[1], tokens, 1, None, None, at[2])
        least = min(least, time.perf_counter() - began)
    return float(least * 1e12 / (rows * COLS * tokens))


def main(names: list[str]) -> None:
    library.function("edgedec_set_threads")(1)
    sys.stdout.write(f"row, format, then over {TOKENS} tokens\n")
    for row in library.available():
        for name in names:
            figures = " ".join(f"{picoseconds(row, name, count):.1f}" for count in TOKENS)
            sys.stdout.write(f"{row} {name} {figures}\n")


if __name__ == "__main__":
    main(sys.argv[1:] or ["q4_1", "q5_0", "q8_0", "q4_k", "q6_k"])
