"""``export --for npu`` and ``--device npu``: what is made, and what is refused in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.backends.npu.plugins import CHOICE
from edgedec.bundle.manifest import Manifest
from edgedec.cli.services import Services
from edgedec.disk.installing import pip_install
from edgedec.export import export_for_npu
from edgedec.models import Store
from tests.cli.support import assert_one_line, ran, run
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return Services(store=lambda: Store(tmp_path / "home"))


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "tiny.gguf")


def test_an_exported_model_runs_on_the_cpu_and_needs_a_plug_in_for_an_npu(
    services: Services, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = str(tmp_path / "bundle")
    ran(services, "export", str(gguf), "-o", bundle, "--for", "npu")
    assert Manifest.load(Path(bundle)).kind == "npu"
    ask = ("generate", "-m", bundle, "-p", "a b", "--raw", "--max-tokens", "5")
    answered = ran(services, *ask, "--device", "cpu")
    assert answered.stdout.strip()
    monkeypatch.setattr("edgedec.backends.npu.plugins.util.find_spec", lambda name: None)
    monkeypatch.delenv(CHOICE, raising=False)
    assert_one_line(run(services, *ask, "--device", "npu"), 5, "plug-in", pip_install("npu"))
    assert_one_line(run(services, *ask, "--memory", "2GB"), 5, "cannot bound", "--memory")


def test_passes_are_timed(services: Services, gguf: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    export_for_npu(gguf, bundle)
    given = replace(services, bandwidth=lambda size, threads: 10.0)
    ask = (
        "bench",
        "kernels",
        "-m",
        str(bundle),
        "--resident",
        "8",
        "--repeat",
        "2",
        "--tokens",
        "1,8",
        "--json",
    )
    result = ran(given, *ask, "--device", "cpu")
    report = json.loads(result.stdout)
    assert (report["isa"], [one["tokens"] for one in report["passes"]]) == ("onnxruntime", [1, 8])
    assert 0 < report["weight_bytes"] <= Manifest.load(bundle).files["weights.bin"].bytes


def test_compiling_needs_qnn(
    services: Services, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedec.backends.npu.plugins.util.find_spec", lambda name: None)
    result = run(services, "export", str(gguf), "-o", str(tmp_path / "bundle"), "--for", "htp")
    assert_one_line(result, 5, "QNN", pip_install("npu"))


def test_a_model_for_the_cpu_is_not_run_on_an_npu(services: Services, gguf: Path) -> None:
    result = run(services, "generate", "-m", str(gguf), "-p", "a", "--device", "npu")
    assert result.exit_code == 5
    assert "--for npu" in result.stderr.splitlines()[-1]


def test_a_directory_becomes_a_bundle_for_an_npu_too(services: Services, gguf: Path, tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "model", gguf)
    text = tmp_path / "text.txt"
    text.write_text("the hello world and more of it, again. " * 60)
    out = tmp_path / "bundle"
    ran(services, "export", str(source), "-o", str(out), "--for", "npu", "--calibrate", str(text))
    assert Manifest.load(out).source["calibration tokens"]


def test_choices_that_do_not_go_with_an_npu(services: Services, gguf: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "bundle")
    result = run(services, "export", str(gguf), "-o", out, "--for", "npu", "--backend", "llama.cpp")
    assert_one_line(result, 2, "--for", "--backend")
    text = tmp_path / "short.txt"
    text.write_text("too short")
    result = run(services, "export", str(gguf), "-o", out, "--for", "npu", "--calibrate", str(text))
    assert_one_line(result, 2, "calibration text")
    assert not Path(out).exists()
