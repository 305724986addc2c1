from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.server.fakes import FakeHub, Running, running


@pytest.fixture
def served() -> Iterator[Running]:
    """A server over a hub that says the same four words."""
    with running(FakeHub()) as server:
        yield server


@pytest.fixture
def client(served: Running) -> Iterator[httpx.Client]:
    with served.client() as found:
        yield found
