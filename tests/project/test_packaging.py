"""Names, extras and files of a release, and the checks that ``.ci/wheels.py`` makes of what it built."""

from __future__ import annotations

import importlib
import importlib.util
import io
import platform
import re
import struct
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from fnmatch import fnmatch
from importlib.metadata import version as installed_version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging import tags

from edgedec.core.version import __version__
from edgedec.kernels import library, notices
from edgedec.system.places import library_name
from tests.conftest import ROOT
from tests.project.sources import documents, modules, relative, sources

with (ROOT / "pyproject.toml").open("rb") as file:
    PROJECT: dict[str, Any] = tomllib.load(file)
METADATA = PROJECT["project"]
INFO = f"edgedec_runtime-{__version__}.dist-info"
EXTRA = re.compile(r"""(?:(?:edgedec-runtime|'\.)\[|\bpip_install\(["'])([a-z,]+)[\]"']""")
NOT_IN_LIBRARIES = ("torch", "transformers")
"""Large packages that only extras bring."""


def script(name: str) -> ModuleType:
    """A script of ``.ci``, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(ROOT / ".ci"))  # scripts there import each other
wheels = script("wheels")
sys.path.pop(0)


def a_wheel(folder: Path, names: Iterable[str], tag: str = "py3-none-manylinux_2_28_x86_64") -> Path:
    path = folder / f"edgedec_runtime-{__version__}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*names, "edgedec/__init__.py"):
            archive.writestr(name, a_library(name))
        archive.writestr(f"{INFO}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
    return path


EXPORTED = b"\0RegisterCustomOps\0edgedec_open\0"


def a_library(name: str, asks: str = "malloc") -> bytes:
    """The names in a library, or nothing for another file; one of macOS with a table of symbols."""
    if name not in {one.compiled[0] for one in wheels.PLATFORMS.values()}:
        return b""
    if not name.endswith(".dylib"):
        return EXPORTED
    head = struct.pack("<8I", 0xFEEDFACF, 0, 0, 6, 1, 24, 0, 0)
    texts = b"\0_" + asks.encode() + EXPORTED
    table = struct.pack("<6I", 2, 24, 56, 2, 88, len(texts))
    symbols = struct.pack("<IBBHQ", 1, 0x01, 0, 0, 0) + struct.pack("<IBBHQ", 1, 0x0F, 1, 0, 0)
    return head + table + symbols + texts


LICENCE = f"{INFO}/licenses/LICENSE"


def a_source(folder: Path, names: Iterable[str]) -> Path:
    path = folder / f"edgedec_runtime-{__version__}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"edgedec_runtime-{__version__}/{name}"), io.BytesIO())
    return path


SOURCE = ("LICENSE", "CMakeLists.txt", "edgedec/api.py", "kernels/library.py", "tests/conftest.py")


def test_the_version_and_the_pythons_are_those_of_the_metadata() -> None:
    assert METADATA["dynamic"] == ["version"]
    assert installed_version("edgedec-runtime") == __version__
    oldest = tuple(int(part) for part in METADATA["requires-python"].removeprefix(">=").split("."))
    assert oldest <= sys.version_info[:2]
    named = [name.rsplit(" ", 1)[1] for name in METADATA["classifiers"] if ":: Python :: 3." in name]
    assert named[0] == ".".join(str(part) for part in oldest)
    assert PROJECT["tool"]["mypy"]["python_version"] == named[0]
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{named[0].replace('.', '')}"


def test_the_licence_is_in_the_tree_and_no_classifier_repeats_it() -> None:
    assert METADATA["license"] == "Apache-2.0"
    assert [(ROOT / name).read_text("utf-8").lstrip()[:14] for name in METADATA["license-files"]] == [
        "Apache License"
    ]
    assert not [name for name in METADATA["classifiers"] if name.startswith("License")]


def test_licences_of_what_the_compiler_links_come_from_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="ziglang"):
        notices.text()
    folder = tmp_path / "ziglang"
    for _, name in notices._PARTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"licence in {name}")
    (folder / "__init__.py").touch()
    importlib.invalidate_caches()
    written = notices.text()
    assert [name for _, name in notices._PARTS if f"licence in {name}" not in written] == []


def test_every_extra_that_a_message_or_a_page_names_exists() -> None:
    files = [*modules(), *documents()]
    named = {
        extra
        for file in files
        for found in EXTRA.findall(file.read_text(encoding="utf-8"))
        for extra in found.split(",")
    }
    assert {"gguf", "optimum", "bench"} <= named
    assert named <= set(METADATA["optional-dependencies"])


def test_extras_are_told_on_the_page_of_installing() -> None:
    page = (ROOT / "docs/guide/installing.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert told == set(METADATA["optional-dependencies"])


def test_the_base_install_is_light() -> None:
    base = METADATA["dependencies"]
    assert base
    assert [name for name in base if name.startswith(NOT_IN_LIBRARIES)] == []


def test_the_rows_that_a_wheel_must_have_are_those_of_the_library() -> None:
    rows, table = script("rows"), (ROOT / "kernels" / "quant_linear" / "rows.inc").read_text("utf-8")
    assert [*rows.X86[:-1], *rows.ARM[:-1], "wasm", "scalar"] == re.findall(r"^ROW\((\w+)\)", table, re.M)
    here = rows.ROWS[platform.machine()]
    assert [row for row in here if library.can_run(row)] == library.available()


def test_a_wheel_without_a_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = script("rows")
    monkeypatch.setattr(library, "rows", lambda: rows.ROWS[platform.machine()])
    rows.main()
    monkeypatch.setattr(library, "rows", lambda: ["scalar"])
    with pytest.raises(SystemExit, match="scalar; expected"):
        rows.main()


SHARED = (*wheels.WASM, wheels.NOTICES, wheels.CATALOGUE, wheels.PROBE, f"{wheels.PAGE}index.html", LICENCE)
LINUX = wheels.PLATFORMS["linux-x86_64"]
WHOLE = (*LINUX.compiled, *SHARED)


def test_readme_names_wheels_as_they_are_built() -> None:
    named = re.findall(r"edgedec_runtime-[\w.-]+\.whl", (ROOT / "README.md").read_text(encoding="utf-8"))
    built = {f"edgedec_runtime-{__version__}-py3-none-{one.tag}.whl" for one in wheels.PLATFORMS.values()}
    assert len(set(named) & built) == len(named) >= 2


@pytest.mark.parametrize("one", wheels.PLATFORMS.values(), ids=[*wheels.PLATFORMS])
def test_a_whole_wheel_is_taken(tmp_path: Path, one: Any) -> None:
    drafter = f"{wheels.DRAFTERS}0123456789abcdef/tables/recycling.table"
    names = [*one.compiled, *SHARED, "edgedec/kernels/", "edgedec/kernels/wgsl/pass.wgsl", drafter]
    wheel = a_wheel(tmp_path, names, f"py3-none-{one.tag}")
    assert wheels.faults_of_wheel(wheel) == []


def test_every_file_of_the_packages_goes_into_a_wheel_or_is_left_out() -> None:
    """Each tracked file, by the folders and patterns of pyproject.toml: a new kind is told of at once."""
    build = PROJECT["tool"]["scikit-build"]["wheel"]
    folders = sorted(build["packages"].items(), key=lambda one: -len(one[1]))
    names = [
        f"{package}/{path.removeprefix(f'{folder}/')}"
        for path in map(relative, sources())
        for package, folder in folders
        if path.startswith(f"{folder}/")
    ]
    packed = [
        name for name in names if not any(fnmatch(f"/{name}", f"*{one[2:]}") for one in build["exclude"])
    ]
    assert len(packed) > 500
    assert [name for name in packed if not wheels.wanted(name, LINUX)] == []


def test_a_library_that_exports_no_ops_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one for Windows did not: only what is marked is exported there."""
    monkeypatch.setattr(sys.modules[__name__], "EXPORTED", b"\0edgedec_open\0RegisterCustomOpsOf\0")
    assert wheels.faults_of_wheel(a_wheel(tmp_path, WHOLE)) == ["exports no RegisterCustomOps"]


def test_a_library_that_asks_for_more_than_macos_11_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    macos = wheels.PLATFORMS["macos-aarch64"]
    newer = a_library(macos.compiled[0], "os_sync_wait_on_address")  # since macOS 14.4
    monkeypatch.setattr(sys.modules[__name__], "a_library", lambda name: newer if "dylib" in name else b"")
    wheel = a_wheel(tmp_path, [*macos.compiled, *SHARED], f"py3-none-{macos.tag}")
    assert wheels.faults_of_wheel(wheel) == ["needs os_sync_wait_on_address, newer than macOS 11"]
    with pytest.raises(ValueError, match="no library of macOS"):
        wheels.macho.needed(EXPORTED)


def test_the_library_of_another_system_is_refused(tmp_path: Path) -> None:
    for name, one in wheels.PLATFORMS.items():
        other = wheels.PLATFORMS["macos-x86_64" if name.startswith("windows") else "windows-x86_64"]
        wheel = a_wheel(tmp_path, [*other.compiled, *SHARED], f"py3-none-{one.tag}")
        lacks = [f"lacks {file}" for file in one.compiled if file not in other.compiled]
        assert wheels.faults_of_wheel(wheel) == lacks + [
            f"has {file}" for file in other.compiled if file not in one.compiled
        ]


def test_pip_takes_the_wheel_on_its_platform() -> None:
    """By the rules of the standard on tags, and nowhere else."""
    on = {
        "linux-x86_64": tags.compatible_tags((3, 11), "cp311", ["manylinux_2_28_x86_64", "linux_x86_64"]),
        "macos-aarch64": tags.compatible_tags((3, 11), "cp311", tags.mac_platforms((15, 0), "arm64")),
        "macos-x86_64": tags.compatible_tags((3, 11), "cp311", tags.mac_platforms((12, 0), "x86_64")),
        "windows-x86_64": tags.compatible_tags((3, 11), "cp311", ["win_amd64"]),
        "windows-aarch64": tags.compatible_tags((3, 11), "cp311", ["win_arm64"]),
    }
    for here, accepted in on.items():
        accepts = set(accepted)
        assert [
            name for name, one in wheels.PLATFORMS.items() if tags.Tag("py3", "none", one.tag) in accepts
        ] == [here]


def test_the_names_of_libraries_are_those_that_are_loaded() -> None:
    built = {Path(one).name for platform in wheels.PLATFORMS.values() for one in platform.compiled}
    loaded = {library_name("edgedec_kernels", system) for system in ("linux", "darwin", "win32")}
    assert built == {*loaded, "edgedec_host"}


@pytest.mark.parametrize("name", WHOLE)
def test_a_wheel_that_lacks_a_part_is_refused(tmp_path: Path, name: str) -> None:
    (found,) = wheels.faults_of_wheel(a_wheel(tmp_path, [one for one in WHOLE if one != name]))
    assert found == f"lacks {name.removeprefix(INFO)}"


@pytest.mark.parametrize(
    "name",
    [
        "edgedec/kernels/libedgedec_kernels_emulated.so",
        "edgedec.libs/libstdc++-1234.so.6",
        "tests/conftest.py",
        "edgedec/kernels/zig.cmake",
        "edgedec/kernels/a.out",
    ],
)
def test_a_wheel_with_another_file_is_refused(tmp_path: Path, name: str) -> None:
    assert wheels.faults_of_wheel(a_wheel(tmp_path, [*WHOLE, name])) == [f"has {name}"]


@pytest.mark.parametrize("tag", ["cp311-cp311-manylinux_2_28_x86_64", "py3-none-linux_x86_64"])
def test_a_wheel_for_one_python_or_an_unknown_c_library_is_refused(tmp_path: Path, tag: str) -> None:
    (found,) = wheels.faults_of_wheel(a_wheel(tmp_path, WHOLE, tag))
    assert found in ("is not tagged py3-none-manylinux_2_28_x86_64", "is for no platform that is built")


def test_a_wheel_that_needs_a_newer_c_library_is_refused() -> None:
    report = 'x.whl is consistent with the following platform tag:\n"{}".'
    wheels.check_glibc(report.format("manylinux_2_17_aarch64"), "aarch64")
    for tag in ("manylinux_2_34_aarch64", "linux_aarch64", "manylinux_2_28_x86_64"):
        with pytest.raises(SystemExit, match="not a wheel for manylinux_2_28"):
            wheels.check_glibc(report.format(tag), "aarch64")


def test_the_c_library_is_the_one_that_the_compiler_links_against() -> None:
    toolchain = (ROOT / "kernels" / "zig.cmake").read_text(encoding="utf-8")
    assert f"-linux-gnu.2.{wheels.GLIBC_MINOR}" in toolchain


def test_a_whole_source_distribution_is_taken(tmp_path: Path) -> None:
    assert wheels.faults_of_source(a_source(tmp_path, SOURCE)) == []


@pytest.mark.parametrize(
    "name", ["build/x86_64/CMakeCache.txt", ".venv/bin/python", "kernels/libkernels.so", "edgedec/a.pyc"]
)
def test_a_source_distribution_with_litter_is_refused(tmp_path: Path, name: str) -> None:
    (found,) = wheels.faults_of_source(a_source(tmp_path, (*SOURCE, name)))
    assert name.split("/")[0] in found
