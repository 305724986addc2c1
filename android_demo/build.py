"""Builds the Android app from packages alone, without Android Studio, SDK and NDK.

    python android_demo/build.py

compiles the engine and the app, packs, aligns and signs build/android/edgedec-chat.apk. Downloads are kept in
build/android/downloads and compared with their hashes. The same sources give the same bytes, signature aside.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parent
sys.path.insert(0, str(DEMO))

from building import app, downloads, models, native, notices, signing  # noqa: E402
from building.tools import BuildError  # noqa: E402

ROOT = DEMO.parent
STUDIO = DEMO / "app" / "src" / "main"


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the Android app from packages alone.")
    add = parser.add_argument
    out = ROOT / "build" / "android"
    add("-o", "--out", type=Path, default=out, metavar="FOLDER", help="where to build (build/android)")
    add(
        "--keystore",
        type=Path,
        metavar="FILE",
        help=f"key to sign with; its password is in {signing.PASSWORD}",
    )
    add(
        "--runtime",
        type=Path,
        metavar="FILE",
        help="libonnxruntime.so for Android, or onnxruntime-android.aar",
    )
    add(
        "--libraries",
        action="store_true",
        help="only put both libraries, the list of models and the licences where Android Studio finds them",
    )
    return parser.parse_args(arguments)


def build(chosen: argparse.Namespace) -> list[str]:
    """Build what was asked for; return the lines that say what came out."""
    out: Path = chosen.out.resolve()
    cache = out / "downloads"
    runtime = downloads.own_runtime(chosen.runtime, cache) if chosen.runtime else downloads.runtime(cache)
    assets = {models.ASSET: models.listed(), notices.ASSET: notices.runtime_licences()}
    libraries = [native.build(ROOT, out / "native"), runtime]
    if chosen.libraries:
        return for_studio(libraries, assets)
    unsigned = app.assemble(DEMO, out / "app", downloads.compilers(cache), libraries, assets)
    signed = out / "edgedec-chat.apk"
    verdict = signing.sign(unsigned, signed, chosen.keystore, out / "trial.keystore")
    schemes = [
        line for line in verdict.splitlines() if line.startswith("Verified using") and line.endswith("true")
    ]
    return [
        f"{signed}: {signed.stat().st_size / 1e6:.1f} MB",
        *app.library_sizes(signed),
        *schemes,
        f"without the signature: SHA-256 {hashlib.sha256(unsigned.read_bytes()).hexdigest()}",
    ]


def for_studio(libraries: list[Path], assets: dict[str, bytes]) -> list[str]:
    """Put what is not a source where Android Studio finds it; return the paths."""
    folder = STUDIO / "jniLibs" / app.ABI
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in assets.items():
        (STUDIO / name).parent.mkdir(parents=True, exist_ok=True)
        (STUDIO / name).write_bytes(data)
    copied = [str(shutil.copy2(one, folder / one.name)) for one in libraries]
    return [*copied, *(str(STUDIO / name) for name in assets)]


def main() -> int:
    try:
        print("\n".join(build(options(sys.argv[1:]))))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
