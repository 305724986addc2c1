"""Build the source distribution and the Linux wheels into dist/: `python .ci/wheels.py`.

`--check` installs and runs them too (see check_wheels.py); `--arch` names one architecture instead of both.
The compiler is Zig's Clang from PyPI (kernels/zig.cmake), so neither a container nor a cross compiler is
needed. `auditwheel` reads which C library the wheel needs, before it gets its tag. For macOS and Windows
`cibuildwheel` builds, by [tool.cibuildwheel] in pyproject.toml; nobody has tried that.
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

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
ARCHITECTURES = ("x86_64", "aarch64")
GLIBC_MINOR = 28  # also in kernels/zig.cmake
PLATFORM = f"manylinux_2_{GLIBC_MINOR}"
# The compiler is pinned: with it, the same source gives the same kernels.
TOOLS = ("build>=1.2", "auditwheel>=6.2", "wheel>=0.40", "cmake>=3.22", "ninja>=1.11", "ziglang==0.17.1")

# Folders of the checkout that a source distribution has, and the only compiled files that a wheel has.
SOURCE_FOLDERS = {"edgedec", "export", "kernels", "models", "cli", "tests", "docs", "android_demo", ".ci"}
LIBRARY = "edgedec/kernels/libedgedec_kernels.so"
HOST = "edgedec/kernels/edgedec_host"
WASM = ("edgedec/kernels/edgedec.wasm", "edgedec/kernels/edgedec-fast.wasm")
NOTICES = "edgedec/kernels/NOTICES.txt"
CATALOGUE = "edgedec/models/catalogue.toml"
DRAFTERS = "edgedec/models/drafters/"
PAGE = "edgedec/server/page/"
WEB = "edgedec/export/web/"
SHADERS = "edgedec/kernels/"
PROBE = "edgedec/kernels/wgsl/probe.json"
LITTER = (".so", ".wasm", ".o", ".pyc", ".onnx", ".gguf", ".whl")


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


def build_wheel(python: Path, architecture: str, beside: list[Path]) -> Path:
    """Compile the kernels for an architecture, pack a wheel with the files ``beside`` them, and tag it."""
    defines = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "kernels" / "zig.cmake",
        "EDGEDEC_ARCH": architecture,
        "EDGEDEC_PYTHON": python,
        "EDGEDEC_ROWS": "all",
        "EDGEDEC_BESIDE": ";".join(map(str, beside)),
    }
    settings = {
        "build-dir": WORK / architecture,
        **{f"cmake.define.{name}": value for name, value in defines.items()},
        "install.strip": "false",  # the linker does it
    }
    with tempfile.TemporaryDirectory() as folder:
        run(
            *(python, "-m", "build", "--wheel", "--outdir", folder, ROOT),
            *(f"-C{name}={value}" for name, value in settings.items()),
            PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            ZIG_GLOBAL_CACHE_DIR=str(WORK / "zig"),
            _PYTHON_HOST_PLATFORM=f"linux-{architecture}",
        )
        (raw,) = Path(folder).glob("*.whl")
        check_glibc(run(python, "-m", "auditwheel", "show", raw), architecture)
        tag = f"{PLATFORM}_{architecture}"
        name = run(python, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, raw).strip()
        return Path(shutil.move(raw.with_name(name), DIST / name))


def check_glibc(report: str, architecture: str) -> None:
    """Refuse a wheel that needs a newer C library, or another library, by the report of auditwheel."""
    found = re.search(rf'"manylinux_2_(\d+)_{architecture}"', report)
    if found is None or int(found[1]) > GLIBC_MINOR:
        sys.exit(f"not a wheel for {PLATFORM}:\n{report}")


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
    tag = next((f"{PLATFORM}_{arch}" for arch in ARCHITECTURES if wheel.stem.endswith(arch)), "")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (info,) = (file.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL"))
    faults = [] if f"Tag: py3-none-{tag}\n" in info else [f"is not tagged py3-none-{tag}"]
    needed = (LIBRARY, HOST, *WASM, NOTICES, CATALOGUE, PROBE, f"{PAGE}index.html", "/licenses/LICENSE")
    faults += [f"lacks {part}" for part in needed if not any(part in n for n in names)]
    return faults + [f"has {name}" for name in names if ".dist-info/" not in name and unwanted(name)]


def unwanted(name: str) -> bool:
    """Say whether a wheel should not have this file: all but sources, what is compiled, and data."""
    wanted = name.endswith((".py", "/py.typed", "/")) or name in (
        LIBRARY,
        HOST,
        *WASM,
        NOTICES,
        CATALOGUE,
        PROBE,
    )
    wanted = wanted or (name.startswith((PAGE, WEB)) and name.endswith((".html", ".css", ".js", ".svg")))
    wanted = wanted or (name.startswith(SHADERS) and name.endswith(".wgsl"))
    return not name.startswith("edgedec/") or not (wanted or name.startswith(DRAFTERS))


def refuse(file: Path, faults: list[str]) -> None:
    if faults:
        sys.exit("\n".join(f"{file.name} {fault}" for fault in faults))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", choices=ARCHITECTURES, action="append", help="only this (default: all)")
    parser.add_argument("--check", action="store_true", help="install the wheels, and chat with each")
    given = parser.parse_args(arguments)
    architectures = given.arch or ARCHITECTURES
    python = tools()
    source = build_source(python)
    refuse(source, faults_of_source(source))
    print(f"{source.relative_to(ROOT)}: {source.stat().st_size / 1e6:.1f} MB", flush=True)
    wasm, notices = build_wasm(python), write_notices(python)
    for file in wasm:
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", flush=True)
    for architecture in architectures:
        wheel = build_wheel(python, architecture, [*wasm, notices])
        refuse(wheel, faults_of_wheel(wheel))
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    if given.check:
        for architecture in architectures:
            command = [sys.executable, str(ROOT / ".ci" / "check_wheels.py"), architecture]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
