from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.export import export_gguf
from edgedec.telemetry.energy import NoMeter
from tests.bench.support import Fakes
from tests.fixtures.tiny_gguf import write_tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny.gguf, its bundle, and a text."""
    folder = tmp_path_factory.mktemp("bench")
    export_gguf(write_tiny(folder / "tiny.gguf"), folder / "bundle")
    (folder / "text.txt").write_text("The cat sat on the mat, and the dog did not. " * 20, encoding="utf-8")
    return folder


@pytest.fixture
def unmetered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.bench.harness.energy.open_meter", lambda: NoMeter(("no meter here",)))


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(tmp_path)
