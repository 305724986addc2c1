"""The logic of the Android app, which needs no Android, on the JVM of this machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec import native
from edgedec.bundle.manifest import Manifest
from tests.conftest import ROOT
from tests.fixtures.streamed import sparse_bundle
from tests.fixtures.tiny_experts import ExpertShape

sys.path.insert(0, str(ROOT / "android_demo"))
models = pytest.importorskip("building.models")
APP = ROOT / "android_demo" / "app" / "src"
needs_jdk = pytest.mark.skipif(
    shutil.which("javac") is None, reason="needs a JDK (Debian: default-jdk-headless)"
)

pytestmark = [needs_jdk, pytest.mark.slow]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    sources = [
        str(path)
        for side in ("main", "test")
        for path in (APP / side / "java/ai/edgedec/core").glob("*.java")
    ]
    subprocess.run(["javac", "--release", "17", "-Xlint:all", "-Werror", "-d", folder, *sources], check=True)
    return folder


def java(classes: Path, name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["java", "-cp", classes, f"ai.edgedec.core.{name}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_apps_logic_passes_its_checks(classes: Path) -> None:
    done = java(classes, "Checks")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nok ") > 20


def test_the_memory_that_the_app_shows_is_what_the_engine_counts(classes: Path, tmp_path: Path) -> None:
    """Figures of a model whose experts do not all have a place."""
    bundle = sparse_bundle(tmp_path, experts=ExpertShape(count=24, chosen=3, width=128))
    experts = Manifest.load(bundle).spec.experts
    assert experts is not None
    planned = native.plan(bundle, threads=1, context=128, memory=500_000_000)["planned_bytes"]
    budget = planned - experts.total // 2 * experts.slot_bytes
    with native.open(bundle, threads=1, context=128, memory=budget) as engine:
        engine.complete("hello world", max_tokens=8)
        stats = engine.stats()
    done = java(classes, "MemoryChecks", json.dumps(stats))
    assert done.returncode == 0, done.stderr
    used, most, held, every = map(int, done.stdout.split())
    assert (used, most, every) == (stats["rss_bytes"], budget, experts.total)
    assert 0 < held == stats["experts"]["slots"] < experts.total
    assert 0 < used <= budget


def test_the_models_of_the_catalogue_are_shown_by_the_memory_of_a_phone(
    classes: Path, tmp_path: Path
) -> None:
    """Those that fit first. In 3 GB an 8B has its experts in storage, a dense 4B less context or no room."""
    shown = tmp_path / "models.json"
    shown.write_bytes(models.listed())
    done = java(classes, "ModelChecks", shown, "3000000000")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    fits = {name: fit for name, fit, *_ in rows}
    assert [fit for _, fit, *_ in rows] == sorted(fits.values(), key=["WHOLE", "REDUCED", "NOT"].index)
    assert fits["lfm2-8b-a1b"] == fits["qwen3-4b"] == "REDUCED"
    assert (fits["gemma4-e2b"], fits["qwen3.5-4b"]) == ("WHOLE", "NOT")
    whole = [int(memory) for _, fit, memory, _ in rows if fit == "WHOLE"]
    assert whole == sorted(whole, reverse=True)


def test_every_native_method_of_java_has_a_function_in_c() -> None:
    java = (APP / "main/java/ai/edgedec/engine/Engine.java").read_text()
    c = (ROOT / "kernels" / "android" / "jni.cc").read_text()
    declared = re.findall(r"native \S+ (\w+)\(", java)
    assert sorted(declared) == sorted(re.findall(r"^ENGINE\(\w+, (\w+)\)", c, re.MULTILINE))
    assert len(declared) > 5


def test_the_apps_logic_knows_nothing_of_android() -> None:
    for path in (APP / "main/java/ai/edgedec/core").glob("*.java"):
        assert "import android" not in path.read_text(), path.name
