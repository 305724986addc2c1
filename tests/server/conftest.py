from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.server.fakes import FakeHub, Running, running


@pytest.fixture(scope="module")
def one_server() -> Iterator[Running]:
    with running(FakeHub()) as server:
        yield server


@pytest.fixture
def served(one_server: Running) -> Running:
    """A server over a hub that says the same four words, and was asked nothing yet."""
    one_server.hub.asked.clear()
    return one_server


@pytest.fixture
def client(served: Running) -> Iterator[httpx.Client]:
    with served.client() as found:
        yield found
