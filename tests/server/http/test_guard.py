"""Guards of the server: host, origin, key; headers of answers; paths."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from edgedec.server.http.settings import ServerSettings
from tests.server.fakes import FakeHub, Running, running
from tests.server.http.test_chat import HELLO, post, refused

KEY = "sesame-opens"


@pytest.fixture(scope="module")
def locked() -> Iterator[Running]:
    """A server that asks for a key."""
    with running(FakeHub(), key=KEY) as server:
        yield server


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:8080", "a.localhost", "LOCALHOST"])
def test_names_of_this_machine_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.com", "evil.com:8080", "localhost.evil.com", "", "10.0.0.1", "[", "a b"]
)
def test_another_host_is_refused_so_that_names_cannot_be_rebound(client: httpx.Client, host: str) -> None:
    for path in ("/", "/v1/models", "/health"):
        answer = client.get(path, headers={"host": host})
        assert refused(answer, 403)["code"] == "forbidden_host"


def test_two_hosts_are_refused(served: Running) -> None:
    answer = served.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n")
    assert b" 403 " in answer.splitlines()[0]


def test_pages_of_other_sites_may_not_ask(client: httpx.Client, served: Running) -> None:
    for origin in ("http://evil.com", "null", "http://localhost:1", "http://["):
        answer = client.post("/v1/chat/completions", json=HELLO, headers={"origin": origin})
        assert refused(answer, 403)["code"] == "forbidden_origin"
    assert post(client).status_code == 200
    assert client.post("/v1/chat/completions", json=HELLO, headers={"origin": served.url}).status_code == 200
    asked = {"origin": "http://evil.com", "access-control-request-method": "POST"}
    answer = client.options("/v1/chat/completions", headers=asked)
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_a_form_of_another_site_is_no_request(client: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.post("/v1/chat/completions", content=b"{}", headers={"content-type": kind})
        assert "application/json" in refused(answer, 415)["message"]


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong-key", f"Basic {KEY}", f"Bearer {KEY}x", KEY, "Bearer é"]
)
def test_without_the_key_there_is_no_answer(locked: Running, given: str) -> None:
    headers = {"authorization": given.encode("latin-1")} if given else {}
    with locked.client() as client:
        for path in ("/v1/models", "/metrics", "/edgedec/status", "/v1/chat/completions", "/nowhere"):
            answer = client.get(path, headers=headers)
            error = refused(answer, 401)
            assert error["code"] == "invalid_api_key"
            assert answer.headers["www-authenticate"] == "Bearer"
            assert KEY not in answer.text


def test_with_the_key_there_is(locked: Running) -> None:
    with locked.client(headers={"authorization": f"bearer {KEY}"}) as client:
        answer = post(client)
        assert answer.status_code == 200
        assert locked.line_of(answer)["status"] == 200
    assert KEY not in locked.lines.getvalue()
    assert KEY not in repr(ServerSettings(key=KEY))


def test_health_and_the_page_need_no_key(locked: Running) -> None:
    with locked.client() as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/").status_code == 200


def test_every_answer_has_headers_that_bind_browsers(client: httpx.Client) -> None:
    for answer in (client.get("/health"), client.get("/nowhere"), post(client), client.get("/")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
        assert answer.headers["x-request-id"].startswith("req_")
    assert client.get("/health").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path", ["/v1/images", "/v1/audio/speech", "/v1", "/v1/chat", "/docs", "/x" * 5000]
)
def test_other_paths_are_404(client: httpx.Client, method: str, path: str) -> None:
    error = refused(client.request(method, path, json={} if method == "POST" else None), 404)
    assert "no such path" in error["message"]


def test_another_method_is_405(client: httpx.Client) -> None:
    answer = client.get("/v1/chat/completions")
    refused(answer, 405)
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "path",
    [
        "/page/../http/gate.py",
        "/page/%2e%2e/http/gate.py",
        "/page/..%2f..%2f..%2fpyproject.toml",
        "/page//etc/passwd",
        "/page/%00",
        "/page/js/../../../wire/body.py",
        "/page/js",
        "/page/",
        "//page/index.html",
    ],
)
def test_paths_lead_nowhere_but_to_the_files_of_the_page(served: Running, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert b" 404 " in served.raw(request.encode()).splitlines()[0]


def test_the_page_and_its_files_are_served(client: httpx.Client) -> None:
    index = client.get("/")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in index.headers["content-security-policy"]
    kinds = {"page/icon.svg": "image/svg+xml", "page/js/app.js": "text/javascript; charset=utf-8"}
    for path, kind in kinds.items():
        answer = client.get(f"/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert client.head("/").status_code == 200


def test_markdown_becomes_html_without_html_of_its_own(client: httpx.Client) -> None:
    text = "# A\n\n<script>alert(1)</script>\n\n```python\nreturn None\n```\n\n[x](javascript:alert(1))"
    html = client.post("/edgedec/markdown", json={"text": text}).json()["html"]
    assert "<h1>A</h1>" in html
    assert '<span class="k">return</span>' in html
    assert "<script" not in html
    assert "href" not in html
    assert refused(client.post("/edgedec/markdown", json={"text": 3}))["param"] == "text"
    assert (
        client.post("/edgedec/markdown", json={"text": "```nolang\n<b>\n```"})
        .json()["html"]
        .count("&lt;b&gt;")
        == 1
    )


def test_headers_that_are_too_long_or_too_many_are_refused(client: httpx.Client, served: Running) -> None:
    refused(client.get("/health", headers={"x": "y" * 40_000}), 431)
    refused(client.get("/health", headers={f"x-{number}": "y" for number in range(120)}), 431)
    endless = served.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 20_000)
    assert b" 431 " in endless.splitlines()[0]


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01garbage\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\n\r\n", b"GET / HTTP/9\r\n\r\n"]
)
def test_what_is_no_http_request_is_answered_in_openais_form(served: Running, data: bytes) -> None:
    head, _, body = served.raw(data).partition(b"\r\n\r\n")
    assert b" 400 " in head.splitlines()[0] or b" 403 " in head.splitlines()[0]
    assert body.startswith(b'{"error":{"message":')
