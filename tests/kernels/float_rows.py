"""Calls the float kernels of every row through their C ABI."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from edgedec.kernels import library

F32 = npt.NDArray[np.float32]
Array = npt.NDArray[Any]


def pointer(array: Array | None) -> ctypes.c_void_p:
    """Address of a C-contiguous array; None is the null pointer."""
    if array is None:
        return ctypes.c_void_p()
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def call(function: str, row: str, *arguments: Any) -> int:
    """Calls `function(row, ...)`; arrays become pointers, ints size_t, floats float, bytes char pointers."""
    converted: list[Any] = [ctypes.c_char_p(row.encode())]
    for value in arguments:
        if value is None or isinstance(value, np.ndarray):
            converted.append(pointer(value))
        elif isinstance(value, bytes):
            converted.append(ctypes.c_char_p(value))
        elif isinstance(value, float):
            converted.append(ctypes.c_float(value))
        else:
            converted.append(ctypes.c_size_t(value))
    return int(getattr(library.load(), function)(*converted))


@cache
def float_rows() -> tuple[str, ...]:
    """The float rows that this build has and this CPU can run, the reference row first."""
    rows = [
        row
        for row in ("scalar", "avx2", "avx512")
        if call("edgedec_math_map", row, b"exp", None, None, 0) == 0
    ]
    assert rows[0] == "scalar"
    return tuple(rows)


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays agree in shape and in every bit; any NaN equals any NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    nan = np.isnan(a) & np.isnan(b)
    raw = f"u{a.dtype.itemsize}"
    return bool(np.all((a.view(raw) == b.view(raw)) | nan))
