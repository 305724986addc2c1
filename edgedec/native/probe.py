"""Calls into parts of the native engine, which its tests compare with the modules that they port."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_void_p
from functools import cache
from json import dumps, loads
from typing import Any

from edgedec.kernels.library import library_path

_TEXT = (c_char_p, c_size_t)


@cache
def library() -> ctypes.CDLL:
    """The kernel library. Functions whose name begins with ``edgedec_probe_`` are there for tests."""
    return ctypes.CDLL(str(library_path()))


@cache
def function(name: str, result: Any, *arguments: Any) -> Any:
    """Return the function ``edgedec_probe_`` + ``name`` with the types of its result and arguments."""
    found = getattr(library(), f"edgedec_probe_{name}")
    found.restype, found.argtypes = result, arguments
    return found


@cache
def text_function(name: str, *arguments: Any) -> Any:
    """Return a function that returns bytes or None; the C function tells their number at its end."""
    call = function(name, c_void_p, *arguments, POINTER(c_size_t))
    free = library().edgedec_free
    free.restype, free.argtypes = None, (c_void_p,)

    def bytes_of(*given: Any) -> bytes | None:
        size = c_size_t()
        found = call(*given, byref(size))
        if not found:
            return None
        try:
            return ctypes.string_at(found, size.value)
        finally:
            free(found)

    return bytes_of


def json(text: bytes) -> bytes | None:
    """Return the text as ``json.dumps`` writes it with sorted keys; None for what is no JSON."""
    found: bytes | None = text_function("json", *_TEXT)(text, len(text))
    return found


def real_text(value: float) -> str:
    """Return the shortest text of a number."""
    found: bytes = text_function("real_text", c_double)(value)
    return found.decode()


def parse_real(text: str) -> float | None:
    """Return the number that a text states."""
    value = c_double()
    data = text.encode()
    found = function("parse_real", c_int, *_TEXT, POINTER(c_double))(data, len(data), byref(value))
    return value.value if found else None


def sha256(data: bytes, step: int) -> str:
    """Return the hash of ``data``, which is handed over in pieces of ``step`` bytes."""
    found: bytes = text_function("sha256", *_TEXT, c_size_t)(data, len(data), step)
    return found.decode()


def write_read(path: str, data: bytes, most: int) -> int:
    """Write a file, read it again, and return the status; -1 where it reads otherwise."""
    call = function("write_read", c_int, c_char_p, *_TEXT, c_size_t)
    found: int = call(path.encode(), data, len(data), most)
    return found


def manifest(text: bytes) -> dict[str, Any]:
    """Return the facts of a manifest's text, or the code, message and hint of its error."""
    return _object(text_function("manifest", *_TEXT)(text, len(text)))


def bundle(folder: str, *, verify: bool = False) -> dict[str, Any]:
    """Return the facts of the bundle in a folder, or its error."""
    return _object(text_function("bundle", c_char_p, c_int)(folder.encode(), verify))


def _object(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = loads(text)
    return found


def grammar(**request: Any) -> dict[str, Any]:
    """Return how a form takes tokens, one after the other, or its error.

    ``schema`` or ``choices`` name the form. ``pieces``: the bytes of each token; ``silent`` ones have no text
    of a reply, and ``ends`` end it. ``tokens`` are followed: as committed ones (``commits``), or only ahead.
    ``masks``: all that may come next is told, too.
    """
    text = dumps(request).encode()
    return _object(text_function("grammar", *_TEXT)(text, len(text)))
