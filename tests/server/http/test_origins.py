"""Pages of other sites, and the page behind a proxy with TLS, as browsers send their requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.server.fakes import FakeHub, Running, running
from tests.server.http.test_chat import HELLO, refused

SITE = "https://chat.example.com"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-os",
}
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def open_to_some() -> Iterator[Running]:
    with running(FakeHub(), origins=("app://obsidian.md", SITE)) as server:
        yield server


@pytest.mark.parametrize("origin", ["app://obsidian.md", SITE])
def test_a_page_of_a_named_origin_asks_and_reads(open_to_some: Running, origin: str) -> None:
    with open_to_some.client(headers={"origin": origin, "sec-fetch-site": "cross-site"}) as page:
        before = page.options(CHAT, headers={**PREFLIGHT, "access-control-request-private-network": "true"})
        assert before.status_code == 200
        assert before.headers["access-control-allow-origin"] == origin
        assert before.headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
        assert before.headers["access-control-allow-private-network"] == "true"
        assert "POST" in before.headers["access-control-allow-methods"]
        for answer in (page.post(CHAT, json=HELLO), page.get("/v1/models"), page.post(CHAT, json={})):
            assert answer.headers["access-control-allow-origin"] == origin
            assert "origin" in answer.headers["vary"].lower()
            assert answer.headers["access-control-expose-headers"] == "retry-after, x-request-id"
        assert page.post(CHAT, json={**HELLO, "stream": True}).text.endswith("data: [DONE]\n\n")


def test_a_page_of_another_origin_does_not(open_to_some: Running) -> None:
    with open_to_some.client(headers={"origin": "https://evil.com"}) as page:
        before = page.options(CHAT, headers=PREFLIGHT)
        assert "access-control-allow-origin" not in before.headers
        answer = page.post(CHAT, json=HELLO)
        assert refused(answer, 403)["code"] == "forbidden_origin"
        assert "access-control-allow-origin" not in answer.headers


def test_every_site_may_ask_where_all_are_allowed_and_errors_can_be_read() -> None:
    headers = {"origin": "null"}
    with (
        running(FakeHub(), origins=("*",), key="sesame-opens") as server,
        server.client(headers=headers) as page,
    ):
        assert page.options(CHAT, headers=PREFLIGHT).headers["access-control-allow-origin"] == "*"
        answer = page.post(CHAT, json=HELLO)
        assert refused(answer, 401)["code"] == "invalid_api_key"
        assert answer.headers["access-control-allow-origin"] == "*"
        key = {"authorization": "Bearer sesame-opens"}
        assert page.post(CHAT, json=HELLO, headers=key).status_code == 200


class _Proxy(BaseHTTPRequestHandler):
    """Forwards as serving.md tells nginx to: to ``localhost``, with the name that the browser asked for."""

    server: Any
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        sent = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        sent |= {"host": "localhost", "x-forwarded-proto": "https"}
        if self.server.names_host:
            sent["x-forwarded-host"] = self.headers["host"]
        upstream = HTTPConnection(*self.server.upstream, timeout=20)
        upstream.request(self.command, self.path, body, sent)
        answer = upstream.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        upstream.close()

    do_GET = do_POST = do_OPTIONS = _forward  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(params=[True, False], ids=["names the host", "names no host"])
def behind_proxy(request: pytest.FixtureRequest, one_server: Running) -> Iterator[tuple[str, bool]]:
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _Proxy)
    proxy.upstream, proxy.names_host = one_server.address, request.param  # type: ignore[attr-defined]
    thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}", request.param
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


def asked(url: str, **headers: str) -> int:
    with httpx.Client(
        base_url=url, trust_env=False, timeout=20, headers={"host": "chat.example.com"}
    ) as browser:
        return browser.post(CHAT, json=HELLO, headers=headers).status_code


def test_the_page_behind_a_proxy_sends_messages(behind_proxy: tuple[str, bool]) -> None:
    url, names_host = behind_proxy
    own = {"origin": SITE, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert httpx.get(url, trust_env=False, headers={"host": "chat.example.com"}).status_code == 200
    assert asked(url, **own) == 200
    # A browser that is too old for these headers needs the proxy to name the host.
    assert asked(url, origin=SITE) == (200 if names_host else 403)


def test_other_pages_are_refused_behind_a_proxy_too(behind_proxy: tuple[str, bool]) -> None:
    url, _ = behind_proxy
    for site in ("cross-site", "same-site", "none"):
        assert asked(url, origin=SITE, **{"sec-fetch-site": site}) == 403
    assert asked(url, origin="https://evil.com") == 403
    assert asked(url, origin="null") == 403


def test_a_page_that_claims_another_host_is_asked_for_first(client: httpx.Client) -> None:
    """A page can set the header of a proxy, but its browser asks before it sends that, and gets no leave."""
    claimed = {"access-control-request-method": "POST", "access-control-request-headers": "x-forwarded-host"}
    answer = client.options(CHAT, headers={"origin": "http://evil.com", **claimed})
    assert answer.status_code == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("size", [5 << 20, 40 << 20])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 413),
        ({"content-type": "text/plain"}, 415),
        ({"host": "evil.com"}, 403),
        ({"expect": "100-continue"}, 413),
    ],
    ids=str,
)
def test_an_answer_before_the_end_of_the_body_arrives(
    served: Running, size: int, headers: dict[str, str], status: int
) -> None:
    """The client writes all of its body before it reads, as simple ones do."""
    given = {"host": "localhost", "content-type": "application/json", "connection": "close", **headers}
    head = f"POST {CHAT} HTTP/1.1\r\ncontent-length: {size}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in given.items())
    with socket.create_connection(served.address, timeout=20) as client:
        client.sendall(head.encode() + b"\r\n")
        part = b" " * (1 << 20)
        for _ in range(size // len(part)):
            client.sendall(part)
        found = b""
        while read := client.recv(65536):
            found += read
    assert f" {status} ".encode() in found.splitlines()[0]
    assert found.endswith(b"}}")
