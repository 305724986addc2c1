"""The functions of ``kernels/core/api/core_api.h``, and their errors as exceptions."""

from __future__ import annotations

from ctypes import c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p
from typing import Any

from edgedec.core.errors import (
    BackendError,
    BadFileError,
    ContextFullError,
    EdgeDecError,
    MemoryBudgetError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from edgedec.core_lib.binding import Functions

_NO_MEMORY = 11
_KINDS: tuple[type[EdgeDecError], ...] = (
    UsageError,
    NotFoundError,
    BadFileError,
    UnsupportedError,
    StorageError,
    ContextFullError,
    BackendError,
    MemoryBudgetError,
)
ERRORS = {error.exit_code: error for error in _KINDS} | {_NO_MEMORY: BackendError}
"""Exceptions by the codes of ``kernels/core/base/status.h``."""
_CORE = Functions(
    "edgedec_core_",
    error=(c_char_p,),
    check=(c_int, c_void_p),
    needs=(None, c_void_p, c_int64, c_int, c_int, c_void_p),
    at_one=(c_int, c_void_p, c_int64, c_int32, c_int, c_int, c_void_p),
    longest_pass=(c_int64,),
    engine_new=(c_void_p, c_void_p),
    engine_free=(None, c_void_p),
    engine_begin=(
        c_int, c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_int64, c_void_p,
    ),
    engine_plan=(c_int, c_void_p, c_int64, c_int64, c_int64),
    engine_verify=(c_int, c_void_p, c_void_p),
    engine_settle=(c_int, c_void_p, c_void_p, c_double, c_double, c_double),
    engine_draft=(c_int64, c_void_p, c_void_p, c_void_p),
    engine_verdict=(c_int, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int64),
    engine_commit=(None, c_void_p, c_int32, c_double),
    engine_drawn_bytes=(c_int64, c_void_p),
    choices=(
        c_int, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_int64, c_void_p, c_int64, *[c_void_p] * 3,
    ),
    numbers=(None, c_int, c_void_p, c_int64, c_uint64, c_int64, c_void_p),
)  # fmt: skip


def function(name: str) -> Any:
    """Return a function, which is called with the interpreter's lock held: most take microseconds.

    Raises BackendError for a kernel library of an older version.
    """
    return getattr(_CORE, name)


def error_of(code: int) -> EdgeDecError:
    """Return the error of this thread's latest call that failed, which returned -``code``."""
    message, _, hint = function("error")().decode("utf-8", "replace").partition("\n")
    return ERRORS.get(code, EdgeDecError)(message, hint=hint or None)
