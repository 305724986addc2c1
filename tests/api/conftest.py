"""A model for one conversation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import edgedec
from tests.api.opening import opened


@pytest.fixture
def model(bundle: Path, tmp_path: Path) -> Iterator[edgedec.Model]:
    with opened(bundle, tmp_path) as model:
        yield model
