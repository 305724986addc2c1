"""Finding, loading and asking the compiled kernel library."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib import resources
from pathlib import Path

from edgedec.core.errors import BackendError, UsageError

_NAMES = ("libedgedec_kernels.so", "libedgedec_kernels.dylib", "edgedec_kernels.dll")
_EMULATED = ("libedgedec_kernels_emulated.so",)


def _find(names: tuple[str, ...]) -> Path | None:
    # An editable install keeps the library in site-packages, this file in the checkout: __file__ is no guide.
    for entry in resources.files("edgedec.kernels").iterdir():
        if entry.name in names:
            return Path(str(entry))
    return None


@cache
def library_path() -> Path:
    """Path of the compiled library, or of another build of it that EDGEDEC_KERNELS names.

    Raises BackendError when there is no such file, or the package was installed without it.
    """
    if given := os.environ.get("EDGEDEC_KERNELS"):
        if not Path(given).is_file():
            raise BackendError(
                f"EDGEDEC_KERNELS={given} is no file", hint="unset it, or name a kernel library"
            )
        return Path(given).resolve()
    path = _find(_NAMES)
    if path is None:
        raise BackendError(
            "the compiled kernel library is missing", hint="install again with a C++ compiler: pip install ."
        )
    return path


def emulated_path() -> Path | None:
    """The test library that models AVX-512 and AMX, or None when it was not built (no SIMDe)."""
    if "EDGEDEC_KERNELS" in os.environ:
        beside = library_path().with_name(_EMULATED[0])
        return beside if beside.is_file() else None
    return _find(_EMULATED)


@cache
def load(path: Path | None = None) -> ctypes.CDLL:
    """The library through ctypes, with the types of its common functions declared."""
    library = ctypes.CDLL(str(path or library_path()))
    library.edgedec_isa.restype = ctypes.c_char_p
    library.edgedec_selected_isa.restype = ctypes.c_char_p
    library.edgedec_read_bandwidth.restype = ctypes.c_double
    library.edgedec_read_bandwidth.argtypes = [ctypes.c_size_t, ctypes.c_int]
    return library


def rows() -> list[str]:
    """Every quantised row of this architecture in order of preference, whether or not this CPU can run it."""
    names: list[str] = []
    while (name := load().edgedec_isa(len(names))) is not None:
        names.append(name.decode())
    return names


def can_run(row: str) -> bool:
    """Whether this CPU has what a row (also a float row: avx512, avx2, neon, scalar) needs."""
    return bool(load().edgedec_cpu_has(row.encode()))


def available() -> list[str]:
    """The quantised rows that this CPU can run, in order of preference; the last is always "scalar"."""
    return [row for row in rows() if can_run(row)]


def isa() -> str:
    """The row that will run: EDGEDEC_ISA when set, else the best one. UsageError when it cannot run here."""
    selected = load().edgedec_selected_isa()
    if selected is None:
        wanted = os.environ.get("EDGEDEC_ISA", "")
        known = "cannot run on this CPU" if wanted in rows() else "is not a kernel row"
        raise UsageError(f"EDGEDEC_ISA={wanted} {known}", hint=f"use one of: {', '.join(available())}")
    return str(selected.decode())
