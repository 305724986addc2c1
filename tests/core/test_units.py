from __future__ import annotations

import pytest

from edgedec.core import units


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (98_362_432, "98.4 MB"), (1_117_320_768, "1.1 GB"), (2e15, "2000.0 TB")],
)
def test_sizes_for_people(count: float, text: str) -> None:
    assert units.size(count) == text
