"""The engine for browsers of this installation: for all, and for those of today."""

from __future__ import annotations

from pathlib import Path

from edgedec import kernels
from edgedec.core.errors import NotFoundError
from edgedec.kernels import notices

WASM = "edgedec.wasm"
FAST = "edgedec-fast.wasm"
"""The same with threads and relaxed SIMD, for browsers where that is exact."""
NOTICES = notices.NAME
"""Licences of what others wrote in both."""
INSTALL = "pip install cmake ninja ziglang==0.17.1"
"""The compiler that makes it."""
_COMMAND = "python -P -m edgedec.export.web.build"
"""Without the folder that one is in: in a clone, its edgedec/ would hide the installed package."""


def wasm_path(name: str = WASM) -> Path:
    """Return the engine for browsers, or what is beside it. Raises NotFoundError where there is none."""
    path = Path(str(kernels.__file__)).parent / name
    if path.is_file():
        return path
    raise NotFoundError(f"there is no {name} here", hint=f"{INSTALL}, then {_COMMAND}")
