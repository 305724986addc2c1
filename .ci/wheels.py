"""Build the source distribution and the wheels of six platforms into dist/: `python .ci/wheels.py`.

`--check` installs and runs those of Linux too (see check_wheels.py); `--platform` names one instead of all.
The compiler is Zig's Clang from PyPI (kernels/zig.cmake), so neither a container, another system nor a cross
compiler is needed. `auditwheel` reads which C library a wheel of Linux needs, before it gets its tag.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import macho

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
GLIBC_MINOR = 28  # also in kernels/zig.cmake
KERNELS = "edgedec/kernels/"


class Platform(NamedTuple):
    """The target of a wheel: the names of its system and processor in CMake, and its tag.

    ``host``: as Python names the platform there. ``compiled``: the files that only this wheel has.
    """

    system: str
    arch: str
    tag: str
    host: str
    compiled: tuple[str, ...]


def _linux(arch: str) -> Platform:
    files = (f"{KERNELS}libedgedec_kernels.so", f"{KERNELS}edgedec_host")
    return Platform("Linux", arch, f"manylinux_2_{GLIBC_MINOR}_{arch}", f"linux-{arch}", files)


def _macos(arch: str, name: str) -> Platform:
    files = (f"{KERNELS}libedgedec_kernels.dylib", f"{KERNELS}edgedec_host")
    return Platform("Darwin", arch, f"macosx_11_0_{name}", f"macosx-11.0-{name}", files)


def _windows(arch: str, name: str) -> Platform:
    return Platform("Windows", arch, f"win_{name}", f"win-{name}", (f"{KERNELS}edgedec_kernels.dll",))


PLATFORMS = {
    "linux-x86_64": _linux("x86_64"),
    "linux-aarch64": _linux("aarch64"),
    "macos-x86_64": _macos("x86_64", "x86_64"),
    "macos-aarch64": _macos("aarch64", "arm64"),
    "windows-x86_64": _windows("x86_64", "amd64"),
    "windows-aarch64": _windows("aarch64", "arm64"),
}
# The compiler is pinned: with it, the same source gives the same kernels.
TOOLS = ("build>=1.2", "auditwheel>=6.2", "wheel>=0.40", "cmake>=3.22", "ninja>=1.11", "ziglang==0.17.1")

# Folders of the checkout that a source distribution has, and the only compiled files that a wheel has.
SOURCE_FOLDERS = {"edgedec", "export", "kernels", "models", "cli", "tests", "docs"}
SOURCE_FOLDERS |= {"android_demo", ".ci", ".github"}
WASM = ("edgedec/kernels/edgedec.wasm", "edgedec/kernels/edgedec-fast.wasm")
NOTICES = "edgedec/kernels/NOTICES.txt"
CATALOGUE = "edgedec/models/catalogue.toml"
DRAFTERS = "edgedec/models/drafters/"
PAGE = "edgedec/server/page/"
WEB = "edgedec/export/web/"
SHADERS = "edgedec/kernels/"
PROBE = "edgedec/kernels/wgsl/probe.json"
REPORT = "edgedec/bench/report/"
SAMPLE = "edgedec/export/calibration/sample.txt"
EXPORTS = ("RegisterCustomOps", "edgedec_open")
"""Functions that ONNX Runtime and ctypes look up by name, so that a library has their names as text."""
LITTER = (".so", ".dylib", ".dll", ".wasm", ".o", ".pyc", ".onnx", ".gguf", ".whl")


def run(*command: str | Path, **environment: str) -> str:
    """Run a command that has to succeed, and return what it prints."""
    parts = [str(part) for part in command]
    done = subprocess.run(
        parts, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(parts)}\n{done.stdout}{done.stderr}\nexit status {done.returncode}")
    return done.stdout


def tools() -> Path:
    """Make, once, an environment with the tools; return its Python."""
    python = WORK / "tools" / "bin" / "python"
    if not python.exists():
        venv.create(WORK / "tools", with_pip=True)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS)
    return python


def build_source(python: Path) -> Path:
    run(python, "-m", "build", "--sdist", "--outdir", DIST, ROOT)
    return max(DIST.glob("edgedec_runtime-*.tar.gz"), key=lambda file: file.stat().st_mtime)


def build_wasm(python: Path) -> list[Path]:
    """Compile the engine for browsers, which all wheels carry, in its two forms."""
    folder = WORK / "wasm"
    toolchain = ROOT / "kernels" / "wasm" / "toolchain.cmake"
    cmake = python.parent / "cmake"
    environment = {
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "ZIG_GLOBAL_CACHE_DIR": str(WORK / "zig"),
    }
    defines = {"CMAKE_BUILD_TYPE": "Release", "CMAKE_TOOLCHAIN_FILE": toolchain, "EDGEDEC_PYTHON": python}
    given = (f"-D{name}={value}" for name, value in defines.items())
    run(cmake, "-S", ROOT, "-B", folder, "-G", "Ninja", *given, **environment)
    run(cmake, "--build", folder, **environment)
    return [folder / "kernels" / Path(name).name for name in WASM]


def write_notices(python: Path) -> Path:
    """Write the licences of what the compiler links into the files of a wheel."""
    path = WORK / Path(NOTICES).name
    path.write_text(run(python, ROOT / "kernels" / "notices.py"), encoding="utf-8")
    return path


def build_wheel(python: Path, platform: Platform, beside: list[Path]) -> Path:
    """Compile the kernels for a platform, pack a wheel with the files ``beside`` them, and tag it."""
    defines = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "kernels" / "zig.cmake",
        "EDGEDEC_SYSTEM": platform.system,
        "EDGEDEC_ARCH": platform.arch,
        "EDGEDEC_PYTHON": python,
        "EDGEDEC_ROWS": "all",
        "EDGEDEC_BESIDE": ";".join(map(str, beside)),
    }
    settings = {
        "build-dir": WORK / platform.tag,
        **{f"cmake.define.{name}": value for name, value in defines.items()},
        "install.strip": "false",  # the linker does it
    }
    with tempfile.TemporaryDirectory() as folder:
        run(
            *(python, "-m", "build", "--wheel", "--outdir", folder, ROOT),
            *(f"-C{name}={value}" for name, value in settings.items()),
            PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            ZIG_GLOBAL_CACHE_DIR=str(WORK / "zig"),
            _PYTHON_HOST_PLATFORM=platform.host,
        )
        (raw,) = Path(folder).glob("*.whl")
        if platform.system == "Linux":
            check_glibc(run(python, "-m", "auditwheel", "show", raw), platform.arch)
        name = run(python, "-m", "wheel", "tags", "--remove", "--platform-tag", platform.tag, raw).strip()
        return Path(shutil.move(raw.with_name(name), DIST / name))


def check_glibc(report: str, architecture: str) -> None:
    """Refuse a wheel that needs a newer C library, or another library, by the report of auditwheel."""
    found = re.search(rf'"manylinux_2_(\d+)_{architecture}"', report)
    if found is None or int(found[1]) > GLIBC_MINOR:
        sys.exit(f"not a wheel for manylinux_2_{GLIBC_MINOR}:\n{report}")


def faults_of_source(archive: Path) -> list[str]:
    """Reasons why a source distribution is not one to publish."""
    with tarfile.open(archive) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
    folders = {name.split("/")[0] for name in names if "/" in name}
    faults = [f"has the folder {name}" for name in sorted(folders - SOURCE_FOLDERS)]
    faults += [f"lacks the folder {name}" for name in ("edgedec", "kernels", "tests") if name not in folders]
    faults += [f"has {name}" for name in names if name.endswith(LITTER) or "__pycache__" in name]
    return faults + [f"lacks {name}" for name in ("LICENSE", "CMakeLists.txt") if name not in names]


def faults_of_wheel(wheel: Path) -> list[str]:
    """Reasons why a wheel is not one to publish."""
    platform = next((one for one in PLATFORMS.values() if wheel.stem.endswith(f"-{one.tag}")), None)
    if platform is None:
        return ["is for no platform that is built"]
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (info,) = (file.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL"))
        library = file.read(platform.compiled[0]) if platform.compiled[0] in names else b""
    tag = f"py3-none-{platform.tag}"
    faults = [] if f"Tag: {tag}\n" in info else [f"is not tagged {tag}"]
    needed = (*platform.compiled, *WASM, NOTICES, CATALOGUE, PROBE, f"{PAGE}index.html", "/licenses/LICENSE")
    faults += [f"lacks {part}" for part in needed if not any(part in n for n in names)]
    if platform.system == "Darwin" and library:
        faults += [
            f"needs {name}, newer than macOS 11" for name in sorted(macho.needed(library) - macho.MACOS_11)
        ]
    faults += [f"exports no {name}" for name in EXPORTS if library and f"{name}\0".encode() not in library]
    unwanted = (name for name in names if ".dist-info/" not in name and not wanted(name, platform))
    return faults + [f"has {name}" for name in unwanted]


def wanted(name: str, platform: Platform) -> bool:
    """Say whether a wheel may have this file: all but sources, what is compiled, and data."""
    right = name.endswith((".py", "/py.typed", "/"))
    right = right or name in (*platform.compiled, *WASM, NOTICES, CATALOGUE, PROBE, SAMPLE)
    right = right or (name.startswith(REPORT) and name.endswith(".j2"))
    right = right or (name.startswith((PAGE, WEB)) and name.endswith((".html", ".css", ".js", ".svg")))
    right = right or (name.startswith(SHADERS) and name.endswith(".wgsl"))
    return name.startswith("edgedec/") and (right or name.startswith(DRAFTERS))


def refuse(file: Path, faults: list[str]) -> None:
    if faults:
        sys.exit("\n".join(f"{file.name} {fault}" for fault in faults))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", choices=PLATFORMS, action="append", help="only this (default: all)")
    parser.add_argument("--check", action="store_true", help="install those of Linux, and chat with each")
    given = parser.parse_args(arguments)
    platforms = given.platform or list(PLATFORMS)
    python = tools()
    source = build_source(python)
    refuse(source, faults_of_source(source))
    print(f"{source.relative_to(ROOT)}: {source.stat().st_size / 1e6:.1f} MB", flush=True)
    wasm, notices = build_wasm(python), write_notices(python)
    for file in wasm:
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", flush=True)
    for name in platforms:
        wheel = build_wheel(python, PLATFORMS[name], [*wasm, notices])
        refuse(wheel, faults_of_wheel(wheel))
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    if given.check:
        subprocess.run([sys.executable, str(ROOT / ".ci" / "check_wheels.py")], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
