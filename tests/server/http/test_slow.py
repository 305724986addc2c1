"""Clients that are slow, endless, gone or many: each costs a bound, and nobody else's time."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from tests.server.fakes import FakeHub, Running, eventually, running
from tests.server.http.test_chat import HELLO, post, refused

BODY = json.dumps(HELLO).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def strict() -> Iterator[Running]:
    """A server with little patience."""
    hub = FakeHub()
    with running(hub, body_bytes=10_000, read_s=0.4, header_s=0.3, idle_s=0.5, connections=20) as server:
        yield server


def connected(server: Running) -> socket.socket:
    return socket.create_connection(server.address, timeout=10)


def ended(client: socket.socket, within_s: float = 5.0) -> bool:
    """Whether the server closes the connection."""
    client.settimeout(within_s)
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_a_body_that_is_too_long_is_413(strict: Running) -> None:
    with strict.client() as client:
        answer = client.post("/v1/chat/completions", json={**HELLO, "user": "x" * 10_000})
        assert "longer than 10000 bytes" in refused(answer, 413)["message"]

        def endless() -> Iterator[bytes]:
            for _ in range(400):
                yield b"x" * 100

        headers = {"content-type": "application/json"}
        refused(client.post("/v1/chat/completions", content=endless(), headers=headers), 413)
        assert post(client).status_code == 200


def test_few_large_bodies_are_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.server.http.reading._SMALL_BYTES", 1000)
    with running(FakeHub(), read_s=3.0) as server, server.client() as client:
        held = [connected(server) for _ in range(4)]
        for one in held:
            one.sendall(HEAD + b"content-length: 9000\r\n\r\n" + b" " * 2000)
        time.sleep(0.3)
        assert post(client).status_code == 200
        started = time.monotonic()
        answer = post(client, user="x" * 2000)
        assert answer.status_code in (200, 408)
        assert time.monotonic() - started > 1
        for one in held:
            one.close()
        assert eventually(lambda: post(client, user="x" * 2000).status_code == 200)


def test_a_stated_length_of_a_lie_is_not_waited_for(strict: Running) -> None:
    assert b" 413 " in strict.raw(HEAD + b"content-length: 99999999999\r\n\r\nx").splitlines()[0]
    assert b" 408 " in strict.raw(HEAD + b"content-length: 100\r\n\r\nx").splitlines()[0]
    assert strict.raw(HEAD + b"content-length: -5\r\n\r\nx").splitlines()[0].split()[1] == b"400"


def test_a_body_that_drips_is_408(strict: Running) -> None:
    with connected(strict) as client:
        client.sendall(HEAD + b"content-length: 1000\r\n\r\n")
        started = time.monotonic()
        with suppress(ConnectionError):
            for _ in range(200):
                client.sendall(b" ")
                time.sleep(0.05)
        assert time.monotonic() - started < 6


@pytest.mark.parametrize("begun", [b"", b"POST /v1/chat", HEAD])
def test_headers_that_do_not_come_end_the_connection(strict: Running, begun: bytes) -> None:
    with connected(strict) as client:
        client.sendall(begun)
        assert ended(client)


def test_a_connection_that_asks_nothing_more_ends(strict: Running) -> None:
    with connected(strict) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert ended(client)


def test_connections_beyond_the_most_are_refused_at_once(strict: Running) -> None:
    held = [connected(strict) for _ in range(20)]
    try:
        assert b" 503 " in strict.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").splitlines()[0]
    finally:
        for one in held:
            one.close()
    with strict.client() as client:
        assert eventually(lambda: client.get("/health").status_code == 200)


def test_requests_sent_ahead_are_bounded(strict: Running) -> None:
    one = HEAD + b"content-length: %d\r\n\r\n%s" % (len(BODY), BODY)
    last = one.replace(b"host:", b"connection: close\r\nhost:")
    assert strict.raw(one * 3 + last).count(b"200 OK") == 4
    strict.raw(one * 500)
    with strict.client() as client:
        assert post(client).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_cancels_its_request(stream: bool) -> None:
    with running(FakeHub(words=("x",) * 1000, pause_s=0.02)) as server:
        body = json.dumps({**HELLO, "stream": stream}).encode()
        with connected(server) as client:
            client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
            assert eventually(lambda: server.hub.tickets)
            time.sleep(0.1)
        assert eventually(lambda: server.hub.tickets[0].cancelled)
        assert eventually(lambda: server.log() and server.log()[-1].get("client_gone"))


def test_a_client_that_reads_slowly_keeps_nobody_waiting() -> None:
    hub = FakeHub(words=("word " * 200,) * 3000)
    with running(hub, stall_s=1.0) as server, server.client() as other, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(server.address)
        body = json.dumps({**HELLO, "stream": True}).encode()
        slow.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert slow.recv(1)
        for _ in range(10):
            started = time.monotonic()
            assert other.get("/health").status_code == 200
            assert time.monotonic() - started < 2
            time.sleep(0.02)
        buffered = [one.transport.get_write_buffer_size() for one in server.server.server_state.connections]
        assert max(buffered, default=0) < 200_000
        assert eventually(lambda: any(line.get("client_gone") for line in server.log()), within_s=10)
        assert hub.tickets[0].cancelled or hub.tickets[0].over


def test_a_flood_is_answered_or_refused_and_the_server_goes_on(served: Running) -> None:
    def ask(number: int) -> int:
        with served.client() as client:
            return post(client, stream=bool(number % 2)).status_code

    with ThreadPoolExecutor(24) as pool:
        found = list(pool.map(ask, range(60)))
    assert set(found) == {200}
    assert len(served.hub.asked) == 60


def test_an_ending_server_cuts_replies_and_takes_no_more() -> None:
    with running(FakeHub(words=("x",) * 1000, pause_s=0.02)) as server, server.client() as client:
        with client.stream("POST", "/v1/chat/completions", json={**HELLO, "stream": True}) as answer:
            lines = answer.iter_lines()
            next(lines)
            threading.Thread(target=server.server.end).start()
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        last = json.loads(rest[-2].removeprefix("data: "))["choices"][0]
        assert (last["finish_reason"], last["edgedec"]) == ("length", {"finish_reason": "interrupted"})
        with suppress(httpx.TransportError):
            assert client.get("/health").status_code == 503


def test_a_server_that_ends_says_so_until_its_replies_are_over() -> None:
    hub = FakeHub(words=("x",) * 150, pause_s=0.02, close_s=20.0)
    with running(hub) as server, server.client() as client, server.client() as other:
        with client.stream("POST", "/v1/chat/completions", json={**HELLO, "stream": True}) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.server.end()
            assert eventually(hub.closed.is_set)
            health = other.get("/health")  # on a connection of its own
            assert (health.status_code, health.json()) == (503, {"status": "shutting down"})
            refusal = post(other)
            assert refused(refusal, 503)["code"] == "shutting_down"
            assert refusal.headers["retry-after"] == "5"
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "stop"


def test_without_httptools_the_same_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.server.http.connections._has_httptools", lambda: False)
    with running(FakeHub(), header_s=0.3, idle_s=0.5) as server, server.client() as client:
        assert post(client).json()["choices"][0]["message"]["content"] == "Hello, world!"
        assert post(client, stream=True).text.endswith("data: [DONE]\n\n")
        refused(client.get("/health", headers={"x": "y" * 40_000}), 431)
        head, _, body = server.raw(b"\x16\x03\x01\r\n\r\n").partition(b"\r\n\r\n")
        assert b" 400 " in head.splitlines()[0]
        assert body.startswith(b'{"error":{"message":')
        with connected(server) as silent:
            silent.sendall(b"GET /health")
            assert ended(silent)


def test_a_stream_without_news_gets_a_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.server.http.generating._SILENCE_S", 0.1)
    with running(FakeHub(words=("a", "b"), pause_s=0.5)) as server, server.client() as client:
        text = post(client, stream=True).text
    assert ": waiting" in text
    assert text.endswith("data: [DONE]\n\n")
