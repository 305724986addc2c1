"""The engine through its Java class, on the JVM of this machine: a reply, a stop, faults, a saved session."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import edgedec.native as native
from edgedec.kernels.library import library_path
from edgedec.native.ready import make_ready
from tests.android.phone import phone_folder, runtime
from tests.conftest import ROOT
from tests.fixtures import tiny_vocab
from tests.fixtures.tiny_models import tiny_bundle
from tests.kernels.arm import run

JAVA = ROOT / "android_demo" / "app" / "src"
QUESTION = "Name three rivers. \N{GRINNING FACE}"
TOKENS = 24
LIBRARY = "libedgedec_java.so"
SPEAKS = "<|im_start|>assistant\\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(shutil.which, ("javac", "g++"))), reason="needs a JDK and g++"),
]


def java_library(folder: Path) -> Path:
    """The methods of the Java class over the library of this machine, as an app has both in one."""
    home = Path(str(shutil.which("javac"))).resolve().parent.parent
    include, kernels = home / "include", library_path()
    made = folder / LIBRARY
    flags = ["-std=c++17", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Werror"]
    folders = ["-I", ROOT / "kernels", "-I", include, "-I", include / "linux"]
    source = ROOT / "kernels" / "android" / "jni.cc"
    run("g++", *flags, *folders, source, "-o", made, kernels, f"-Wl,-rpath,{kernels.parent}")
    return made


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the classes, and the library."""
    folder = tmp_path_factory.mktemp("java")
    sources = [*(JAVA / "main/java/ai/edgedec/engine").glob("*.java")]
    sources += (JAVA / "test/java/ai/edgedec/engine").glob("*.java")
    run("javac", "--release", "17", "-d", folder, *sources)
    java_library(folder)
    return folder


def compared(java: Path, model: Path, session: Path) -> native.NativeReply:
    """Check that Java hears what Python does through the same library; what that is."""
    arguments = [java / LIBRARY, runtime(), model, session, QUESTION]
    command = ["java", "-Xcheck:jni", "-cp", java, "ai.edgedec.engine.EngineChecks", *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING in native method" not in done.stdout
    facts = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    with native.open(model, context=512) as engine:
        turns = [{"role": "user", "content": QUESTION}]
        formed = engine.reply(turns, max_tokens=TOKENS, schema='{"enum": ["yes", "no"]}')
        expected = engine.reply(turns, max_tokens=TOKENS)
    assert bytes.fromhex(facts["form"]).decode() == formed.text
    assert formed.text in ('"yes"', '"no"')
    assert formed.thought == ""
    assert bytes.fromhex(facts["reply"]).decode() == expected.text
    assert bytes.fromhex(facts["thought"]).decode() == expected.thought
    assert int(facts["tokens"]) == len(expected.tokens)
    return expected


def test_java_has_the_replies_of_the_engine(java: Path, tmp_path: Path) -> None:
    model = phone_folder("smollm2-135m", tmp_path / "model")
    assert compared(java, model, tmp_path / "session").text


def test_java_has_the_thinking_part_apart(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_vocab, "CHATML", tiny_vocab.CHATML.replace(SPEAKS, f"{SPEAKS}<think>\\n"))
    model = tiny_bundle(tmp_path)
    make_ready(model)
    heard = compared(java, model, tmp_path / "session")
    assert (len(heard.thought) > TOKENS // 2, heard.text) == (True, "")
