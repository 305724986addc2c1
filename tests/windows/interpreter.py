"""Python for Windows in Wine, put together from wheels (CONTRIBUTING.md has the command that fetches them).

Panda3D's wheel has CPython's own ``python311.dll`` and modules; the standard library is this Python's. A
program and a ``python3.dll`` are made here, and so is what packages ask for that Wine 8 lacks:
``python_parts.c``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.conftest import ROOT
from tests.windows import cross

WHEELS = Path(os.environ.get("EDGEDEC_WINDOWS_WHEELS") or "none")
"""A folder with wheels: Panda3D, EdgeDec and all that it needs, pytest."""
FOLDER = ROOT / "build" / "windows-python"
PACKAGES = FOLDER / "Lib" / "site-packages"
_HERE = Path(__file__).parent
_MATHS, _OURS = b"api-ms-win-crt-math-l1-1-0.dll", b"wpi-ms-win-crt-math-l1-1-0.dll"
"""The C library's functions as packages name them, and the name of the file that has them here."""
_LONG = re.compile("(acosh|asinh|atanh|cbrt|copysign|exp2|expm1|llround|log1p|nextafter|rint|trunc)l")
"""Functions of long double, which is double there."""


def missing() -> str | None:
    """Name what is needed and not there, or return None."""
    lacks = [] if any(WHEELS.glob("panda3d-*-cp311-*.whl")) else ["EDGEDEC_WINDOWS_WHEELS (with Panda3D's)"]
    lacks += [] if importlib.util.find_spec("pefile") else ["pefile (pip install pefile)"]
    lacks += [] if sys.version_info[:2] == (3, 11) else ["to be Python 3.11"]
    return cross.missing(wine=True) or (f"needs {', '.join(lacks)}" if lacks else None)


@cache
def python() -> Path:
    """Put the interpreter together; its program."""
    program = FOLDER / "python.exe"
    wheels = sorted(WHEELS.glob("*.whl"))
    wanted = " ".join(f"{one.name} {one.stat().st_size}" for one in [*wheels, *_HERE.glob("python_*.c")])
    if (made := FOLDER / "made").is_file() and made.read_text(encoding="utf-8") == wanted:
        return program
    shutil.rmtree(FOLDER, ignore_errors=True)
    own = shutil.ignore_patterns("site-packages", "test", "lib-dynload", "__pycache__", "config-*")
    shutil.copytree(sysconfig.get_path("stdlib"), FOLDER / "Lib", ignore=own)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            if not wheel.name.startswith("panda3d"):
                file.extractall(PACKAGES)
                continue
            for name in file.namelist():
                if name.startswith("deploy_libs/") and "api-ms" not in name:
                    (FOLDER / Path(name).name).write_bytes(file.read(name))
    _add_parts()
    made.write_text(wanted, encoding="utf-8")
    return program


def _add_parts() -> None:
    names, maths = _exports(FOLDER / "python311.dll"), set[str]()
    for path in [*PACKAGES.rglob("*.pyd"), *PACKAGES.rglob("*.dll")]:
        if _MATHS in (data := path.read_bytes()):
            maths |= _asked(path)
            path.write_bytes(data.replace(_MATHS, _OURS))
    parts = _HERE / "python_parts.c"
    ours = {*re.findall(r"(?:PART|MAP)\((\w+)", parts.read_text(encoding="utf-8")), "cpow"}
    _library("python3", (f"{name} = python311.{name}" for name in names), parts)
    _library(Path(_OURS.decode()).stem, (_place(name, ours) for name in sorted(maths)), parts)
    _library("bcryptprimitives", ["ProcessPrng = edgedec_ProcessPrng"], parts)
    _zig(_HERE / "python_main.c", "-municode", "-o", FOLDER / "python.exe")


def _place(name: str, ours: set[str]) -> str:
    """Where a function of the C library is found."""
    short = name[:-1] if _LONG.fullmatch(name) or (name.endswith("l") and name[:-1] in ours) else name
    own = short in ours or (short.endswith("f") and short[:-1] in ours)
    return f"{name} = {f'edgedec_{short}' if own else f'ucrtbase.{short}'}"


def _library(stem: str, exports: Iterable[str], source: Path) -> None:
    definition = FOLDER / f"{stem}.def"
    lines = [f"LIBRARY {stem}.dll", "EXPORTS", *(f"  {one}" for one in exports)]
    definition.write_text("\n".join(lines) + "\n", encoding="utf-8")
    _zig("-shared", source, definition, "-ladvapi32", "-o", FOLDER / f"{stem}.dll")


def _zig(*words: str | Path) -> None:
    cross.run(sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-O1", *words)


def _exports(path: Path) -> list[str]:
    import pefile

    found = pefile.PE(str(path)).DIRECTORY_ENTRY_EXPORT.symbols
    return [one.name.decode() for one in found if one.name]


def _asked(path: Path) -> set[str]:
    """Functions of the C library's mathematics that a file names."""
    import pefile

    libraries = pefile.PE(str(path)).DIRECTORY_ENTRY_IMPORT
    maths = [one for one in libraries if one.dll == _MATHS]
    return {function.name.decode() for one in maths for function in one.imports}
