"""The logic of the Android app, which needs no Android, on the JVM of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

APP = ROOT / "android_demo" / "app" / "src"
needs_jdk = pytest.mark.skipif(
    shutil.which("javac") is None, reason="needs a JDK (Debian: default-jdk-headless)"
)

pytestmark = [needs_jdk, pytest.mark.slow]


def test_the_apps_logic_passes_its_checks(tmp_path: Path) -> None:
    sources = [
        str(path)
        for side in ("main", "test")
        for path in (APP / side / "java/ai/edgedec/core").glob("*.java")
    ]
    subprocess.run(
        ["javac", "--release", "17", "-Xlint:all", "-Werror", "-d", tmp_path, *sources], check=True
    )
    done = subprocess.run(
        ["java", "-cp", tmp_path, "ai.edgedec.core.Checks"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nok ") > 20


def test_every_native_method_of_java_has_a_function_in_c() -> None:
    java = (APP / "main/java/ai/edgedec/engine/Engine.java").read_text()
    c = (ROOT / "kernels" / "android" / "jni.cc").read_text()
    declared = re.findall(r"native \S+ (\w+)\(", java)
    assert sorted(declared) == sorted(re.findall(r"^ENGINE\(\w+, (\w+)\)", c, re.MULTILINE))
    assert len(declared) > 5


def test_the_apps_logic_knows_nothing_of_android() -> None:
    for path in (APP / "main/java/ai/edgedec/core").glob("*.java"):
        assert "import android" not in path.read_text(), path.name
