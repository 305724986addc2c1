from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home in which commands that name no model take the one that tests install."""
    monkeypatch.setenv("EDGEDEC_MODEL", "smollm2-135m")
    return Home(tmp_path / "home")
