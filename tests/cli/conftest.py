from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Home


@pytest.fixture(autouse=True)
def _default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands that name no model take the one that tests install."""
    monkeypatch.setenv("EDGEDEC_MODEL", "smollm2-135m")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")
