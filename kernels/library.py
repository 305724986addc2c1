"""Find and load the compiled kernel library, and list its rows: one set of kernels per instruction set."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

import edgedec.kernels
from edgedec.core.errors import BackendError, UsageError
from edgedec.system.places import library_name, program_name

_NAME, _EMULATED = library_name("edgedec_kernels"), library_name("edgedec_kernels_emulated")
_HOST = program_name("edgedec_host")
ALL_ROWS = "pip install -C cmake.define.EDGEDEC_ROWS=all ."
"""Compiles a clone with every row of the architecture."""


def _find(name: str) -> Path | None:
    # Not by __file__: an editable install keeps the library in site-packages and this file in the checkout.
    places = (Path(folder, name) for folder in edgedec.kernels.__path__)
    return next((place for place in places if place.is_file()), None)


@cache
def library_path() -> Path:
    """Return the path of the compiled library; the environment variable EDGEDEC_KERNELS names another build.

    Raises BackendError when that file does not exist, or when the package was installed without the library.
    """
    if given := os.environ.get("EDGEDEC_KERNELS"):
        if not Path(given).is_file():
            raise BackendError(
                f"EDGEDEC_KERNELS={given} is not a file", hint="unset it, or name a kernel library"
            )
        return Path(given).resolve()
    path = _find(_NAME)
    if path is None:
        raise BackendError(
            "the compiled kernel library is missing",
            hint=_install_again(),
        )
    return path


def emulated_path() -> Path | None:
    """Return the path of the test library that models AVX-512 and AMX, or None where it was not built."""
    if "EDGEDEC_KERNELS" in os.environ:
        beside = library_path().with_name(_EMULATED)
        return beside if beside.is_file() else None
    return _find(_EMULATED)


def host_path() -> Path:
    """Return the path of the program that runs the engine without Python. Raises BackendError without it."""
    beside = library_path().with_name(_HOST)
    if not beside.is_file():
        raise BackendError(
            f"the program {_HOST} is missing beside {library_path().name}",
            hint="it is built with the library, on Linux and macOS: install EdgeDec again",
        )
    return beside


@cache
def load(path: Path | None = None) -> ctypes.CDLL:
    """Load the library with ctypes and declare the types of its common functions."""
    library = ctypes.CDLL(str(path or library_path()))
    library.edgedec_selected_isa.restype = ctypes.c_char_p
    library.edgedec_read_bandwidth.restype = ctypes.c_double
    library.edgedec_read_bandwidth.argtypes = [ctypes.c_size_t, ctypes.c_int]
    return library


def function(name: str) -> Any:
    """Return a function of the library. Raises BackendError for a library of an older version."""
    try:
        return getattr(load(library_path()), name)
    except AttributeError:
        raise too_old() from None


def with_regions(model: bytes, threads: int) -> bytes | None:
    """Return a graph with its runs of EdgeDec's ops as regions; None for one without, or one that is broken.

    A region is one node: its ``threads`` stay together from its first op to its last
    (``kernels/ort/with_regions.h``). Raises BackendError for a library of an older version.
    """
    return _changed("edgedec_with_regions", model, ctypes.c_int(threads))


def with_store(model: bytes, store: int) -> bytes | None:
    """Return a graph with its experts taken from a store; None for bytes that are no model.

    ``kernels/experts/with_store.h``. Raises BackendError for a library of an older version.
    """
    return _changed("edgedec_with_store", model, ctypes.c_int64(store))


def _changed(name: str, model: bytes, number: object) -> bytes | None:
    change, length = function(name), ctypes.c_size_t()
    change.restype = ctypes.c_void_p
    if not (made := change(model, ctypes.c_size_t(len(model)), number, ctypes.byref(length))):
        return None
    try:
        return ctypes.string_at(made, length.value)
    finally:
        function("edgedec_free")(ctypes.c_void_p(made))


def wrong_with_graph(model: bytes, weights: int, *, standard: bool = False) -> str | None:
    """Return why a graph over ``weights`` bytes of weights is broken; None for a whole one.

    ``kernels/engine/model/graph_guard.h`` says what is checked. With ``standard``, no op may be of another
    domain than ONNX's own. Raises BackendError for a library of an older version.
    """
    check = function("edgedec_wrong_with_graph")
    check.restype, domain, length = ctypes.c_char_p, ctypes.c_char_p(), ctypes.c_size_t()
    places = ctypes.c_uint64(weights), int(standard), ctypes.byref(domain), ctypes.byref(length)
    wrong = check(model, ctypes.c_size_t(len(model)), *places)
    if wrong is None:
        return None
    words = str(wrong, "ascii")
    if not length.value:
        return words
    other = ctypes.string_at(domain, length.value).decode("utf-8", "replace")
    return f"{words} {other[:40]!r}"


_READ_AT_ONCE = 64 << 20
"""Bytes between two chances for Ctrl-C."""


def read_ahead(file: Path, first: int) -> None:
    """Read a file from byte ``first`` on into the page cache in large pages, where the system can.

    It is much quicker than the page faults of a mapping, and passes over it are too
    (``kernels/common/os/files.h``). Raises BackendError for a library of an older version.
    """
    read = function("edgedec_read_ahead")
    read.argtypes, read.restype = (ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64), None
    size = file.stat().st_size if file.is_file() else 0
    for at in range(first, size, _READ_AT_ONCE):
        read(os.fsencode(file), at, _READ_AT_ONCE)


def too_old() -> BackendError:
    """Return the error for a library that lacks a function."""
    return BackendError(
        f"the kernel library {library_path()} is of an older version than this package",
        hint=_install_again(),
    )


def _install_again() -> str:
    from edgedec.disk.installing import pip_reinstall  # imports all that reads packages

    return f"install EdgeDec again: {pip_reinstall()}"


def rows() -> list[str]:
    """List the quantised rows of this library, the preferred one first, runnable here or not."""
    return _listed("edgedec_isa")


def faster() -> list[str]:
    """List the rows that this CPU prefers to all that this library has: it was compiled for another one."""
    order = [row for row in _listed("edgedec_every_isa") if can_run(row)]
    return order[: order.index(available()[0])]


def _listed(name: str) -> list[str]:
    nth = function(name)
    nth.restype = ctypes.c_char_p
    names: list[str] = []
    while (row := nth(len(names))) is not None:
        names.append(row.decode())
    return names


def can_run(row: str) -> bool:
    """Say whether this CPU can run a row: a quantised one, or a float row (avx512, avx2, neon, scalar)."""
    return bool(load().edgedec_cpu_has(row.encode()))


def available() -> list[str]:
    """List the quantised rows that this CPU can run, the preferred one first; the last is always "scalar"."""
    return [row for row in rows() if can_run(row)]


def isa() -> str:
    """Return the row that will run: the one in EDGEDEC_ISA, else the preferred one that this CPU can run.

    Raises UsageError when EDGEDEC_ISA names a row that this CPU cannot run or this library lacks.
    """
    selected = load().edgedec_selected_isa()
    if selected is not None:
        return str(selected.decode())
    wanted, hint = os.environ.get("EDGEDEC_ISA", ""), f"use one of: {', '.join(available())}"
    if wanted not in _listed("edgedec_every_isa"):
        raise UsageError(f"EDGEDEC_ISA={wanted} is not a kernel row", hint=hint)
    if not can_run(wanted):
        raise UsageError(f"EDGEDEC_ISA={wanted} cannot run on this CPU", hint=hint)
    raise UsageError(
        f"EDGEDEC_ISA={wanted} is not in this library, which was compiled for one CPU",
        hint=f"{hint}; '{ALL_ROWS}' in a clone compiles all",
    )
