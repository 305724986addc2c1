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


class Pointer(ctypes.c_void_p):
    """An address that remembers its array, for calls that do not share memory with it."""

    array: Array | None = None


def pointer(array: Array | None) -> Pointer:
    """Address of a C-contiguous array; None is the null pointer."""
    if array is None:
        return Pointer()
    assert array.flags.c_contiguous
    address = Pointer(array.ctypes.data)
    address.array = array
    return address


def library_for(row: str) -> ctypes.CDLL:
    """The library that can run a row here: it models what the CPU lacks."""
    here = library.load()
    if row not in ("avx512", "wasm") or here.edgedec_math_map(row.encode(), b"exp", None, None, 0) == 0:
        return here
    return library.load(emulated) if (emulated := library.emulated_path()) else here


def call(function: str, row: str, *arguments: Any) -> int:
    """Calls `function(row, ...)`; arrays become pointers, ints size_t, floats float, bytes char pointers,
    other values go as they are."""
    converted: list[Any] = [ctypes.c_char_p(row.encode())]
    for value in arguments:
        if value is None or isinstance(value, np.ndarray):
            converted.append(pointer(value))
        elif isinstance(value, bytes):
            converted.append(ctypes.c_char_p(value))
        elif isinstance(value, float):
            converted.append(ctypes.c_float(value))
        elif isinstance(value, int):
            converted.append(ctypes.c_size_t(value))
        else:
            converted.append(value)
    return int(getattr(library_for(row), function)(*converted))


@cache
def float_rows() -> tuple[str, ...]:
    """The float rows that can run here, emulated ones included; the reference row first."""
    rows = [
        row
        for row in ("scalar", "avx2", "avx512", "wasm")
        if call("edgedec_math_map", row, b"exp", None, None, 0) == 0
    ]
    assert rows[0] == "scalar"
    return tuple(rows)


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays agree in shape and in every bit; any NaN equals any NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    nan = np.isnan(a) & np.isnan(b)
    raw = f"u{a.dtype.itemsize}"
    return bool(np.all((a.view(raw) == b.view(raw)) | nan))
