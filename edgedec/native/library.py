"""The functions of kernels/engine/edgedec.h, and their errors as exceptions."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgedec.core.errors import BackendError, EdgeDecError
from edgedec.core_lib.library import ERRORS
from edgedec.kernels.library import library_path
from edgedec.native.structs import CMessage, COptions, CRequest, CResult, CSampling, CStatus
from edgedec.system.places import versioned_names

_IDS, _TEXT, _STATUS = POINTER(c_int32), (c_char_p, c_size_t), POINTER(CStatus)
_ASKED = (POINTER(CRequest), POINTER(CResult), _STATUS)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "version": (c_char_p,),
    "free": (None, c_void_p),
    "options_init": (None, POINTER(COptions)),
    "sampling_init": (None, POINTER(CSampling)),
    "request_init": (None, POINTER(CRequest)),
    "plan": (c_int, c_char_p, POINTER(COptions), POINTER(c_void_p), _STATUS),
    "open": (c_int, c_char_p, POINTER(COptions), POINTER(c_void_p), _STATUS),
    "close": (None, c_void_p),
    "sampling_of": (c_int, c_void_p, POINTER(CSampling), _STATUS),
    "encode": (c_int, c_void_p, *_TEXT, c_int32, _IDS, c_size_t, POINTER(c_size_t), _STATUS),
    "decode": (c_int, c_void_p, _IDS, c_size_t, c_void_p, c_size_t, POINTER(c_size_t), _STATUS),
    "reply": (c_int, c_void_p, POINTER(CMessage), c_size_t, *_ASKED),
    "more": (c_int, c_void_p, *_ASKED),
    "complete": (c_int, c_void_p, *_TEXT, *_ASKED),
    "generate": (c_int, c_void_p, _IDS, c_size_t, *_ASKED),
    "stop": (None, c_void_p),
    "stats": (c_int, c_void_p, POINTER(c_void_p), _STATUS),
    "measure_again": (c_int, c_void_p, _STATUS),
    "save": (c_int, c_void_p, c_char_p, _STATUS),
    "restore": (c_int, c_void_p, c_char_p, _STATUS),
}
"""By name without ``edgedec_``: result type, then argument types."""


@cache
def library() -> ctypes.CDLL:
    """Load the kernel library with the types of its C API. Calls let other threads of Python run."""
    found = ctypes.CDLL(str(library_path()))
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(found, f"edgedec_{name}")
        function.restype, function.argtypes = result, arguments
    return found


def call(name: str, *arguments: Any) -> None:
    """Call a function whose last argument is a status. Raises the error that it states."""
    status = CStatus()
    if getattr(library(), f"edgedec_{name}")(*arguments, byref(status)):
        raise error_of(status)


def call_text(name: str, *arguments: Any) -> str:
    """Call a function that returns a text. Raises the error that it states."""
    found = c_void_p()
    call(name, *arguments, byref(found))
    try:
        return ctypes.string_at(found).decode()
    finally:
        library().edgedec_free(found)


def error_of(status: CStatus) -> EdgeDecError:
    """Return a status as the exception of the same code."""
    message, hint = (text.decode("utf-8", "replace") for text in (status.message, status.hint))
    return ERRORS.get(status.code, EdgeDecError)(message, hint=hint or None)


def runtime_path() -> str:
    """Return the path of ONNX Runtime's library in the installed package. Raises BackendError."""
    spec = find_spec("onnxruntime")
    folders = [Path(folder) / "capi" for folder in (spec.submodule_search_locations or ())] if spec else []
    for folder in folders:
        for path in sorted(folder.glob(versioned_names("onnxruntime"))):
            return str(path)
    raise BackendError("ONNX Runtime is not installed", hint="pip install onnxruntime")
