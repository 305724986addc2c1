"""Functions of the core in the kernel library."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

from edgedec.kernels.library import library_path, too_old

POINTER, INT, LONG, REAL = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_double

Signatures = Mapping[str, tuple[Any, ...]]
"""By the name of a function: the type of its result, then those of its arguments."""


@cache
def _library() -> ctypes.PyDLL:
    """The kernel library, called with the interpreter's lock held: most calls take less than 1 us."""
    return ctypes.PyDLL(str(library_path()))


def bind(prefix: str, signatures: Signatures) -> dict[str, Any]:
    """Return the functions whose names are ``prefix`` and a key of ``signatures``, by this key.

    Raises BackendError for a kernel library of an older version.
    """
    found = {}
    for name, (result, *arguments) in signatures.items():
        try:
            function = getattr(_library(), prefix + name)
        except AttributeError:
            raise too_old() from None
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found


def address(name: str) -> int:
    """Return the address of a function, to hand it in as a callback."""
    found = ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
    assert found is not None
    return found
