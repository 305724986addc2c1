"""The page that describes the interface names every path, and no request that it allows breaks the server."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from edgedec.models import Store
from edgedec.server.http.routes import Endpoints
from edgedec.server.work.request import QueueLimits
from tests.server.fakes import Running, running
from tests.server.work.hubs import hub_of, store_of

FETCHES = ("/api/pull",)
"""Paths that would fetch what a request names."""
_NAMES = ("method", "url", "headers", "params", "json", "content", "data")
"""Parts of a request."""
_EXAMPLES, _LEAST_PATHS, _SERVER_ERROR = 100, 20, 500
_LIMITS = QueueLimits(reply_tokens=4, request_s=20.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return store_of(tmp_path_factory.mktemp("openapi"), tiny="llama")


@pytest.fixture(scope="module")
def one_server(store: Store) -> Iterator[Running]:
    with running(hub_of(store, limits=_LIMITS)) as server:
        yield server


@pytest.fixture
def served(one_server: Running) -> Running:
    return one_server


def test_the_page_names_every_path(client: httpx.Client) -> None:
    routes = Endpoints(*[SimpleNamespace()] * 3).routes()  # type: ignore[arg-type]
    known = {route.path.replace(":path", "") for route in routes}
    own = {"/", "/page/{name}", "/openapi.json", "/api/delete"}
    page = client.get("/openapi.json").json()
    assert set(page["paths"]) == known - own
    assert page["openapi"].startswith("3.1")


def test_bodies_have_their_fields(client: httpx.Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["ChatBody"]["required"] == ["messages"]
    assert {"input_prefix", "input_suffix", "n_predict"} <= set(schemas["InfillBody"]["properties"])


@pytest.mark.slow
def test_no_request_that_the_page_allows_breaks_the_server(served: Running) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    every = [found.ok() for found in schema.get_all_operations()]
    with served.client() as client:
        asked = {one.path: statuses(client, one) for one in every if one.path not in FETCHES}
    assert len(asked) > _LEAST_PATHS
    assert {200, 400} <= set().union(*asked.values())


def statuses(client: httpx.Client, operation: Any) -> set[int]:
    """The statuses of requests that an operation allows."""
    found = set()

    @given(case=operation.as_strategy())
    @settings(max_examples=_EXAMPLES, deadline=None, database=None, suppress_health_check=[*HealthCheck])
    def ask(case: Any) -> None:
        wanted = case.as_transport_kwargs(base_url=str(client.base_url))
        named = {name: wanted[name] for name in _NAMES if wanted.get(name) is not None}
        answer = client.request(**named)
        assert answer.status_code < _SERVER_ERROR, (case.path, named, answer.text)
        found.add(answer.status_code)

    ask()
    return found
