"""The programs that the build runs, and the packages that have them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGES = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "aapt2": "aapt",
    "apksigner": "apksigner",
    "cmake": "cmake",
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "keytool": "default-jdk-headless",
    "make": "make",
    "npm": "npm",
    "zipalign": "zipalign",
}
"""Program -> Debian's package."""
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
"""Android's own resources, of Debian's package android-framework-res."""


class BuildError(Exception):
    """One line that says why the build ended."""


def require(*programs: str, framework: bool = False) -> None:
    """Raise BuildError that names the packages of all programs that are missing."""
    missing = [name for name in programs if not shutil.which(name)]
    packages = {PACKAGES[name] for name in missing}
    if framework and not FRAMEWORK.is_file():
        missing.append(str(FRAMEWORK))
        packages.add("android-framework-res")
    if missing:
        install = f"apt install {' '.join(sorted(packages))}"
        raise BuildError(f"the build needs {', '.join(missing)} (Debian, Ubuntu: {install})")


def say(line: str) -> None:
    """Tell how far the build is."""
    print(f"  {line}", file=sys.stderr, flush=True)


def run(command: Sequence[str | Path], *, where: Path | None = None, secret: str | None = None) -> str:
    """Return what a program printed. ``secret`` goes to its input. Raises BuildError with its last lines."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=where, input=secret, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{words[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise BuildError(f"{Path(words[0]).name} ended with status {done.returncode}:\n{said}")
    return done.stdout
