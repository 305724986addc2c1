from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.support import Fakes


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(tmp_path)
