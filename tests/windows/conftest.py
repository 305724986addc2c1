"""The library and the native engine in Wine, and beside them those of this system."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from edgedec.kernels import library
from tests.kernels import float_rows
from tests.kernels.arm import ArmRunner
from tests.kernels.float_rows import Array, same_bits
from tests.windows.hosts import Host, linux_host, windows_host
from tests.windows.wine import WineLibrary

Compare = Callable[[Callable[[str], Array]], None]


@pytest.fixture(scope="module")
def wine() -> Iterator[WineLibrary]:
    with WineLibrary() as opened:
        yield opened


@pytest.fixture(params=[row for row in library.available() if row != "amx"])
def runner(request: pytest.FixtureRequest, wine: WineLibrary) -> ArmRunner:
    return ArmRunner(request.param, library=wine)


@pytest.fixture
def same_in_wine(monkeypatch: pytest.MonkeyPatch, wine: WineLibrary) -> Compare:
    """Compares what a function of the row's name computes here with what it computes there."""

    def compare(compute: Callable[[str], Array]) -> None:
        expected = compute("scalar")
        with monkeypatch.context() as there:
            there.setattr(float_rows, "library_for", lambda row: wine)
            for row in {"scalar", *float_rows.float_rows()} & {"scalar", "avx2", "avx512"}:
                if wine.edgedec_cpu_has(row.encode()):
                    assert same_bits(compute(row), expected), row

    return compare


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = linux_host(tmp_path_factory.mktemp("linux"))
    yield host
    host.close()


@pytest.fixture(scope="module")
def windows() -> Iterator[Host]:
    host = windows_host()
    yield host
    host.close()
