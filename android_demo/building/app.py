"""The app out of its sources: resources, classes and libraries in an APK that has no signature yet.

The same sources give the same bytes: entries are sorted and have one date, and no path goes in.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from building import notices, pages
from building.tools import FRAMEWORK, require, run, say

ABI = "arm64-v8a"
MIN_SDK = "26"
_DATE = (1981, 1, 1, 1, 1, 2)
"""The date that Android's own tools write into archives."""


def assemble(
    demo: Path,
    work: Path,
    compilers: tuple[Path, Path],
    libraries: Sequence[Path],
    assets: Mapping[str, bytes],
) -> Path:
    """Return the APK, aligned and without a signature.

    ``compilers``: d8, and the platform's declarations. ``assets``: further files, by name.
    """
    require("aapt2", "java", "javac", "zipalign", framework=True)
    for library in libraries:
        pages.check(library)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    resources = _resources(demo, work)
    dex = _classes(demo, work, compilers)
    say("packing the APK")
    entries = _read(resources) | {"classes.dex": dex.read_bytes(), **assets}
    entries |= {f"lib/{ABI}/{library.name}": library.read_bytes() for library in libraries}
    packed, aligned = work / "packed.apk", work / "unsigned.apk"
    _pack(entries, packed)
    run(["zipalign", "-p", "-f", "4", packed, aligned])
    return aligned


def library_sizes(apk: Path) -> list[str]:
    """Return a line for each library in an APK: its bytes on the phone, and in the APK."""
    with zipfile.ZipFile(apk) as opened:
        found = [one for one in opened.infolist() if one.filename.endswith(".so")]
    return [
        f"{one.filename}: {one.file_size / 1e6:.2f} MB, {one.compress_size / 1e6:.2f} MB in the APK"
        for one in found
    ]


def _resources(demo: Path, work: Path) -> Path:
    say("compiling resources")
    main, compiled, linked = demo / "app/src/main", work / "resources.zip", work / "resources.apk"
    run(["aapt2", "compile", "--dir", main / "res", "-o", compiled])
    manifest = main / "AndroidManifest.xml"
    flags: list[str | Path] = ["--java", work / "generated", "-o", linked]
    name, code = notices.version()
    flags += ["--version-name", name, "--version-code", str(code)]
    run(["aapt2", "link", "-I", FRAMEWORK, "--manifest", manifest, *flags, compiled])
    return linked


def _classes(demo: Path, work: Path, compilers: tuple[Path, Path]) -> Path:
    say("compiling classes")
    d8, declarations = compilers
    newer, classes = work / "newer", work / "classes"
    sources = sorted((demo / "app/src/main/java").rglob("*.java")) + sorted(
        (work / "generated").rglob("*.java")
    )
    # Android runs the language of Java 8; parameters and debug information are as javac writes them.
    javac = ["javac", "--release", "8", "-encoding", "UTF-8", "-Xlint:all,-options,-deprecation"]
    run([*javac, "-cp", declarations, "-d", newer, *sorted((demo / "api").rglob("*.java"))])
    run([*javac, "-Werror", "-cp", f"{newer}:{declarations}", "-d", classes, *sources])
    flags: list[str | Path] = [
        "--release",
        "--min-api",
        MIN_SDK,
        "--lib",
        declarations,
        "--classpath",
        newer,
        "--output",
        work,
    ]
    run(["java", "-cp", d8, "com.android.tools.r8.D8", *flags, *sorted(classes.rglob("*.class"))])
    return work / "classes.dex"


def _read(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def _pack(entries: dict[str, bytes], path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        # The manifest first, as Android's own tools have it.
        for name in sorted(entries, key=lambda one: (one != "AndroidManifest.xml", one)):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system = 0
            # Since its version 11 Android maps the table of resources out of the APK.
            stored = name == "resources.arsc"
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            archive.writestr(entry, entries[name], compresslevel=9)
