"""The engine through its Java class, on the JVM of this machine: a reply, a stop, faults, a saved session."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import edgedec.native as native
from edgedec.kernels.library import library_path
from tests.android.phone import phone_folder, runtime
from tests.conftest import ROOT
from tests.kernels.arm import run

JAVA = ROOT / "android_demo" / "app" / "src"
QUESTION = "Name three rivers. \N{GRINNING FACE}"
TOKENS = 24

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(shutil.which, ("javac", "g++"))), reason="needs a JDK and g++"),
]


def java_library(folder: Path) -> Path:
    """The methods of the Java class over the library of this machine, as an app has both in one."""
    home = Path(str(shutil.which("javac"))).resolve().parent.parent
    include, kernels = home / "include", library_path()
    made = folder / "libedgedec_java.so"
    flags = ["-std=c++17", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Werror"]
    folders = ["-I", ROOT / "kernels", "-I", include, "-I", include / "linux"]
    source = ROOT / "kernels" / "android" / "jni.cc"
    run("g++", *flags, *folders, source, "-o", made, kernels, f"-Wl,-rpath,{kernels.parent}")
    return made


def test_java_has_the_replies_of_the_engine(tmp_path: Path) -> None:
    model = phone_folder("smollm2-135m", tmp_path / "model")
    sources = [*(JAVA / "main/java/ai/edgedec/engine").glob("*.java")]
    sources += (JAVA / "test/java/ai/edgedec/engine").glob("*.java")
    run("javac", "--release", "17", "-d", tmp_path, *sources)
    arguments = [java_library(tmp_path), runtime(), model, tmp_path / "session", QUESTION]
    command = ["java", "-Xcheck:jni", "-cp", tmp_path, "ai.edgedec.engine.EngineChecks", *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING in native method" not in done.stdout
    facts = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    with native.open(model, context=512) as engine:
        expected = engine.reply([{"role": "user", "content": QUESTION}], max_tokens=TOKENS)
    assert bytes.fromhex(facts["reply"]).decode() == expected.text
    assert int(facts["tokens"]) == len(expected.tokens)
