from __future__ import annotations

import pytest

from edgedec.core.errors import BackendError
from edgedec.telemetry import machine
from edgedec.telemetry.bandwidth import Bandwidth, measure


def test_this_machine() -> None:
    here = machine.describe()
    assert 1 <= here.cores <= here.logical_cpus
    assert here.memory_bytes is None or here.memory_bytes > 100_000_000
    assert here.cpu
    assert here.as_json()["features"] == list(here.features)


def test_bandwidth_is_the_best_reading_of_each_thread_count() -> None:
    readings = {1: [3.0, 5.0, 4.0], 4: [9.0, 8.0, 7.0]}
    asked = []

    def read(size: int, threads: int) -> float:
        asked.append((size, threads))
        return readings[threads].pop(0)

    assert measure(read, (4, 1, 4), size=100) == [Bandwidth(1, 5.0), Bandwidth(4, 9.0)]
    assert asked == [(100, 1)] * 3 + [(100, 4)] * 3


@pytest.mark.parametrize("reading", [0.0, -1.0, float("nan")])
def test_a_failed_reading_is_an_error(reading: float) -> None:
    with pytest.raises(BackendError, match="bandwidth"):
        measure(lambda size, threads: reading, (1,))
