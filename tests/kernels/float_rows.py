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


MODELLED = "-modelled"
"""Ends the name of a row that is to run on a model of its instructions, whatever the CPU has."""


def library_for(row: str) -> ctypes.CDLL:
    """The library that can run a row here: it models what the CPU lacks."""
    if row.endswith(MODELLED):
        return library.load(library.emulated_path())
    here = library.load()
    if row not in ("avx512", "wasm") or here.edgedec_math_map(row.encode(), b"exp", None, None, 0) == 0:
        return here
    return library.load(emulated) if (emulated := library.emulated_path()) else here


def call(function: str, row: str, *arguments: Any) -> int:
    """Calls `function(row, ...)`; arrays become pointers, ints size_t, floats float, bytes char pointers,
    other values go as they are."""
    converted: list[Any] = [ctypes.c_char_p(row.removesuffix(MODELLED).encode())]
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


@cache
def byte_rows() -> tuple[str, ...]:
    """The rows of products of bytes that can run here, emulated ones included; the reference row first."""
    emulated = ("avx512_vnni", "amx", "wasm") if library.emulated_path() else ()
    here = [row for row in library.available() if row != "scalar"]
    return "scalar", *here, *(row + MODELLED for row in emulated)


def rows_of_caches() -> list[tuple[str, bool]]:
    """Each row that can run here, with whether it is one over int8 keys and values."""
    return [*((row, False) for row in float_rows()), *((row, True) for row in byte_rows())]


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays agree in shape and in every bit; any NaN equals any NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    nan = np.isnan(a) & np.isnan(b)
    raw = f"u{a.dtype.itemsize}"
    return bool(np.all((a.view(raw) == b.view(raw)) | nan))
