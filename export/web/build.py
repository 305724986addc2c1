"""Compile ``edgedec.wasm`` from a source checkout: ``python -m edgedec.export.web.build``.

It takes CMake, Ninja and Zig's compiler: ``pip install cmake ninja ziglang==0.17.1``. Wheels have the file.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from edgedec import kernels
from edgedec.core.errors import BackendError, EdgeDecError, NotFoundError, UnsupportedError
from edgedec.export.web.wasm import INSTALL, WASM


def build(source: Path, folder: Path) -> Path:
    """Compile the engine of the checkout ``source`` with ``folder`` for what lies between; return the file.

    Raises UnsupportedError without a compiler, BackendError when it fails.
    """
    missing = [name for name in ("cmake", "ninja") if not shutil.which(name)]
    missing += [] if importlib.util.find_spec("ziglang") else ["ziglang"]
    if missing:
        raise UnsupportedError(f"{WASM} cannot be compiled without {', '.join(missing)}", hint=INSTALL)
    toolchain = source / "kernels" / "wasm" / "toolchain.cmake"
    if not toolchain.is_file():
        raise NotFoundError("this is no source checkout of EdgeDec", hint="call it in one")
    folder.mkdir(parents=True, exist_ok=True)
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"), "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
    environment = caches | dict(os.environ)
    for command in (
        ("cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DEDGEDEC_PYTHON={sys.executable}"),
        ("cmake", "--build", str(folder)),
    ):  # fmt: skip
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()
            wrong = next((line for line in said if "error" in line.lower()), said[-1] if said else "")
            raise BackendError(
                f"{WASM} does not compile: {wrong[:300]}", hint=f"see what '{' '.join(command)}' says"
            )
    return folder / "kernels" / WASM


def main() -> int:
    """Compile it, and put it beside the kernels' sources."""
    folder = Path(str(kernels.__file__)).parent
    try:
        made = build(folder.parent, folder.parent / "build" / "web")
    except EdgeDecError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    shutil.copyfile(made, folder / WASM)
    print(folder / WASM)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
