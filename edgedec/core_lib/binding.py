"""Functions of the core in the kernel library."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from edgedec.kernels.library import library_path, too_old

POINTER, INT, LONG, REAL = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_double
TEXT, SIZE = ctypes.c_char_p, ctypes.c_size_t


@cache
def _library() -> ctypes.PyDLL:
    """The kernel library, called with the interpreter's lock held: most calls take less than 1 us."""
    return ctypes.PyDLL(str(library_path()))


class Functions:
    """Functions whose names begin with ``prefix``, as attributes of the names without it.

    ``signatures``: the type of a function's result, then those of its arguments. A function is bound as it is
    first asked for, which raises BackendError for a kernel library of an older version.
    """

    def __init__(self, prefix: str, /, **signatures: tuple[Any, ...]) -> None:
        self._prefix, self._signatures = prefix, signatures

    def __getattr__(self, name: str) -> Any:
        result, *arguments = self._signatures[name]
        try:
            found = getattr(_library(), self._prefix + name)
        except AttributeError:
            raise too_old() from None
        found.restype, found.argtypes = result, arguments
        setattr(self, name, found)
        return found


def ints_at(place: int, count: int) -> list[int]:
    """Return the i32 that a function of the core hands in or out."""
    return (ctypes.c_int32 * count).from_address(place)[:] if count else []


def address(name: str) -> int:
    """Return the address of a function, to hand it in as a callback."""
    found = ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
    assert found is not None
    return found
