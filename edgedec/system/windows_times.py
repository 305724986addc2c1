"""Times of files that Windows keeps and Python does not tell."""

from __future__ import annotations

import ctypes
import os
from importlib import import_module
from pathlib import Path

_BASIC = 0
"""FileBasicInfo of ``GetFileInformationByHandleEx`` (minwinbase.h)."""


class BasicInfo(ctypes.Structure):
    """FILE_BASIC_INFO."""

    _fields_ = (
        ("created", ctypes.c_int64),
        ("read", ctypes.c_int64),
        ("written", ctypes.c_int64),
        ("changed", ctypes.c_int64),
        ("attributes", ctypes.c_uint32),
    )


def changed(file: Path | int) -> int:
    """Return when a file, open or by its path, last changed, in 100 ns; no program sets it back.

    Raises OSError. ``st_ctime`` is when the file was created.
    """
    if isinstance(file, Path):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            return changed(descriptor)
        finally:
            os.close(descriptor)
    calls, found = ctypes.CDLL("kernel32"), BasicInfo()
    handle = ctypes.c_void_p(import_module("msvcrt").get_osfhandle(file))  # Windows alone has it
    size = ctypes.c_uint32(ctypes.sizeof(found))
    if not calls.GetFileInformationByHandleEx(handle, _BASIC, ctypes.byref(found), size):
        raise OSError("Windows does not tell the times of a file")
    return int(found.changed)
