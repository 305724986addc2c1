"""Tools for the page: confirmed and checked; for our own page alone. Their server is a real one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from edgedec.mcp.config import ServerCommand
from edgedec.mcp.servers import ToolServers
from edgedec.mcp.tool import MOST_RESULT_CHARS
from tests.server.fakes import FakeHub, Running, running
from tests.server.http.test_chat import refused

SCRIPT = str(Path(__file__).parents[2] / "mcp" / "tool_server.py")
OWN = {"sec-fetch-site": "same-origin"}
LIST, CALL = "/edgedec/tools", "/edgedec/tools/call"


@pytest.fixture(scope="module")
def with_tools() -> Iterator[Running]:
    command = ServerCommand("test", sys.executable, (SCRIPT,), allowed=frozenset({"variable"}))
    with (
        ToolServers([command], pytest.fail) as tools,
        running(FakeHub(), origins=("https://chat.example.com",), tools=tools) as server,
    ):
        yield server


@pytest.fixture
def page(with_tools: Running) -> Iterator[httpx.Client]:
    """Our own page, which has read the token."""
    with with_tools.client(headers=OWN) as client:
        client.headers["x-edgedec-page"] = client.get(LIST).json()["token"]
        yield client


def call(page: httpx.Client, tool: str, confirmed: bool = True, **arguments: Any) -> httpx.Response:
    return page.post(CALL, json={"name": tool, "arguments": arguments, "confirmed": confirmed})


def test_the_page_lists_tools_and_their_schemas_bind_calls(page: httpx.Client) -> None:
    found = {one["tool"]["function"]["name"]: one for one in page.get(LIST).json()["tools"]}
    add = found["add"]
    assert (add["server"], add["allowed"], add["tool"]["type"]) == ("test", False, "function")
    assert add["tool"]["function"]["strict"] is True
    assert found["variable"]["allowed"] is True


def test_a_call_needs_a_person_unless_its_file_allows_it(page: httpx.Client) -> None:
    assert call(page, "add", a=2, b=40).json() == {"text": "42", "failed": False}
    assert refused(call(page, "add", confirmed=False, a=2, b=40), 403)["code"] == "not_confirmed"
    assert call(page, "variable", confirmed=False, name="NOTHING").json()["text"] == "none"


def test_wrong_arguments_failures_and_long_results_are_answers_to_the_model(page: httpx.Client) -> None:
    wrong = call(page, "add", a="x", b=1).json()
    assert wrong["failed"]
    assert wrong["text"].startswith("wrong arguments: a: 'x' is not of type")
    assert call(page, "fail").json()["failed"]
    assert len(call(page, "long_text", count=MOST_RESULT_CHARS * 2).json()["text"]) < MOST_RESULT_CHARS + 50
    assert refused(call(page, "nothing"), 404)["code"] == "no_tool"


FOREIGN: dict[str, dict[str, str]] = {
    "another site": {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    "another port of this machine": {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:9"},
    "a site that may ask for replies": {"sec-fetch-site": "cross-site", "origin": "https://chat.example.com"},
    "a link": {"sec-fetch-site": "none"},
    "a name that was bound again": {**OWN, "host": "evil.example"},
    "a proxy": {**OWN, "x-forwarded-for": "10.1.2.3"},
    "a program": {},
}


@pytest.mark.parametrize("who", FOREIGN)
def test_nobody_else_lists_or_calls(with_tools: Running, page: httpx.Client, who: str) -> None:
    given = {"x-edgedec-page": page.headers["x-edgedec-page"], **FOREIGN[who]}
    with with_tools.client(headers=given) as other:
        for answer in (other.get(LIST), call(other, "add", a=1, b=1)):
            assert refused(answer, 403)["code"] in ("forbidden_page", "forbidden_origin", "forbidden_host")
            assert "token" not in answer.json()


def test_a_call_needs_the_token_and_json(page: httpx.Client, with_tools: Running) -> None:
    for token in ("", "guessed", "é"):
        with with_tools.client(headers={**OWN, b"x-edgedec-page": token.encode()}) as other:
            assert refused(call(other, "add", a=1, b=1), 403)["code"] == "wrong_page"
    form = page.post(CALL, content="name=add", headers={"content-type": "text/plain"})
    assert refused(form, 415)


@pytest.mark.parametrize(
    "body",
    [{}, {"name": "add"}, {"name": 3, "arguments": {}}, {"name": "add", "arguments": [1]}, {"more": 1}],
)
def test_broken_bodies_are_refused(page: httpx.Client, body: dict[str, Any]) -> None:
    assert 400 <= page.post(CALL, json=body).status_code < 500


def test_a_key_is_needed_too_where_the_server_has_one(with_tools: Running) -> None:
    with running(FakeHub(), key="sesame-opens") as server, server.client(headers=OWN) as page:
        assert refused(page.get(LIST), 401)


def test_a_server_without_tools_says_so(client: httpx.Client) -> None:
    assert client.get(LIST).json() == {"tools": []}
    assert "has no tools" in refused(call(client, "add"), 404)["message"]
