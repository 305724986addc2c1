"""Compile ``edgedec.wasm`` from the sources of EdgeDec: ``python -P -m edgedec.export.web.build``.

It takes CMake, Ninja and Zig's compiler: ``pip install cmake ninja ziglang==0.17.1``. Wheels have the files.
The sources are those of the current folder, or of the clone from which EdgeDec was installed.
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
from edgedec.disk.installing import clone
from edgedec.export.web.wasm import FAST, INSTALL, NOTICES, WASM
from edgedec.kernels import notices

_TOOLCHAIN = Path("kernels") / "wasm" / "toolchain.cmake"


def sources() -> Path:
    """Return the folder of EdgeDec's sources: of an editable install, else the current one, else the clone.

    Raises NotFoundError where none of them has the sources.
    """
    tried = (Path(str(kernels.__file__)).parent.parent, Path.cwd(), clone())
    for folder in tried:
        if folder is not None and (folder / _TOOLCHAIN).is_file():
            return folder
    raise NotFoundError(
        "there are no sources of EdgeDec, neither here nor where it was installed from",
        hint="call it in a clone of EdgeDec",
    )


def build(source: Path, folder: Path) -> Path:
    """Compile the engine of the checkout ``source`` with ``folder`` for what lies between.

    Returns the folder of its files.

    Raises UnsupportedError without a compiler, BackendError when it fails.
    """
    # Beside Python lie the commands of an environment that is not activated.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    missing = [name for name in ("cmake", "ninja") if not shutil.which(name, path=path)]
    missing += [] if importlib.util.find_spec("ziglang") else ["ziglang"]
    if missing:
        raise UnsupportedError(f"{WASM} cannot be compiled without {', '.join(missing)}", hint=INSTALL)
    folder.mkdir(parents=True, exist_ok=True)
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"), "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
    environment = caches | dict(os.environ) | {"PATH": path}
    for command in (
        ("cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_TOOLCHAIN_FILE={source / _TOOLCHAIN}", f"-DEDGEDEC_PYTHON={sys.executable}"),
        ("cmake", "--build", str(folder)),
    ):  # fmt: skip
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()
            wrong = next((line for line in said if "error" in line.lower()), said[-1] if said else "")
            raise BackendError(
                f"{WASM} does not compile: {wrong[:300]}", hint=f"see what '{' '.join(command)}' says"
            )
    return folder / "kernels"


def main() -> int:
    """Compile them, and put them beside the installed kernels."""
    folder = Path(str(kernels.__file__)).parent
    try:
        source = sources()
        made = build(source, source / "build" / "web")
    except EdgeDecError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    (made / NOTICES).write_text(notices.text(), encoding="utf-8", newline="\n")
    for name in (FAST, WASM, NOTICES):
        shutil.copyfile(made / name, folder / f"{name}.partial")
        (folder / f"{name}.partial").replace(folder / name)
        print(folder / name)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
