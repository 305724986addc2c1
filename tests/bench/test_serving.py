"""Servers under load: what is counted, in which order, and what makes a server fail."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from edgedec.bench.harness.texts import read_conversations
from edgedec.bench.studies.serving import ServingRow, ServingStudy, measure_serving, percentiles
from edgedec.core.errors import SideLost
from tests.cli.support import run

PAUSE_S = 0.05


class EchoServer:
    """Replies with the number of words asked for, and knows how many were answered at once."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.most = self.running = 0
        self.refuse = False
        self.unstable = False
        self.lock = threading.Lock()

    def reply(self, body: dict[str, Any], write: Any) -> None:
        with self.lock:
            self.requests.append(body)
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(PAUSE_S)
        name = body["messages"][-1]["content"]
        words = ["a", "b", str(len(self.requests)) if self.unstable else name]
        for word in words:
            write({"choices": [{"delta": {"content": word}}]})
        write({"choices": [], "usage": {"completion_tokens": len(words)}})
        with self.lock:
            self.running -= 1


@contextmanager
def serving(echo: EchoServer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._head(200, "application/json")
            self.wfile.write(json.dumps({"data": [{"id": "echo"}]}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if echo.refuse:
                self._head(429, "application/json")
                self.wfile.write(b'{"error": {"message": "busy"}}')
                return
            self._head(200, "text/event-stream")
            echo.reply(body, lambda chunk: self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode()))
            self.wfile.write(b"data: [DONE]\n\n")

        def _head(self, status: int, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, address: Any) -> None:
            """Say nothing of a client that went."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def measured(study: ServingStudy) -> list[ServingRow]:
    return asyncio.run(measure_serving(study, lambda stage, done, total: None))


def test_every_conversation_is_had_once_by_as_many_clients_as_asked() -> None:
    echo = EchoServer()
    with serving(echo) as url:
        (row,) = measured(ServingStudy([url], [["one", "two"], ["three"], ["four"]], [3], 9))
    assert (row.clients, row.replies, row.tokens, row.failed) == (3, 4, 12, [])
    assert echo.most == 3
    assert (row.checked, row.differ) == (4, 0)
    assert all(body["temperature"] == 0 and body["max_tokens"] == 9 for body in echo.requests)
    follow_up = next(body for body in echo.requests if len(body["messages"]) == 3)
    assert [one["role"] for one in follow_up["messages"]] == ["user", "assistant", "user"]


def test_times_are_those_of_first_and_later_turns() -> None:
    with serving(EchoServer()) as url:
        (row,) = measured(ServingStudy([url], [["one", "two"]], [1], 9))
    assert row.checked == 0
    assert all(PAUSE_S <= seconds < 20 * PAUSE_S for seconds in (*row.first_s, *row.later_s))
    assert 0 < row.tokens_per_s <= row.tokens / (2 * PAUSE_S)


def test_servers_take_turns_to_be_first() -> None:
    with serving(EchoServer()) as one, serving(EchoServer()) as other:
        rows = measured(ServingStudy([one, other], [["a"], ["b"]], [1, 2], 9))
    assert [row.server for row in rows] == [one, other, other, one]


def test_a_reply_that_changes_under_load_is_counted() -> None:
    echo = EchoServer()
    echo.unstable = True
    with serving(echo) as url:
        (row,) = measured(ServingStudy([url], [["a"], ["b"]], [2], 9))
    assert (row.checked, row.differ) == (2, 2)


def test_a_refusal_is_kept_in_its_own_words() -> None:
    echo = EchoServer()
    echo.refuse = True
    with serving(echo) as url:
        (row,) = measured(ServingStudy([url], [["a"]], [1], 9))
    assert row.replies == 0
    assert "answers 429" in row.failed[0]


def test_a_server_that_is_not_there_is_lost() -> None:
    with pytest.raises(SideLost, match="no list of models"):
        measured(ServingStudy(["http://127.0.0.1:9/v1"], [["a"]], [1], 9))


def test_of_ten_times_the_worst_is_the_95th() -> None:
    values = [float(one) for one in range(1, 12)]
    assert percentiles(values) == (6.0, 10.5)
    assert percentiles(values, best="high") == (6.0, 1.5)
    assert percentiles([]) == ()


def test_a_file_has_conversations_of_several_turns(tmp_path: Path) -> None:
    file = tmp_path / "talks.jsonl"
    file.write_text('{"turns": ["Hello", "And now?"]}\n"alone"\n', encoding="utf-8")
    assert read_conversations(file) == [["Hello", "And now?"], ["alone"]]


def test_the_command_shows_a_line_for_each_load() -> None:
    with serving(EchoServer()) as url:
        done = run(None, "bench", "serving", url, "--clients", "1", "--clients", "2", "--json")
    results = json.loads(done.stdout)["results"]
    assert [one["clients"] for one in results] == [1, 2]
    assert set(results[0]["first_s"]) == {"p50", "p95"}


def test_more_clients_than_conversations_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.txt"
    file.write_text("Hello\n", encoding="utf-8")
    done = run(None, "bench", "serving", "http://127.0.0.1:9/v1", "--input", str(file))
    assert done.exit_code == 2
    assert "1 conversations are not enough for 8 clients" in done.stderr
