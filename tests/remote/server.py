"""A server on loopback that continues texts, or misbehaves in a way that a test writes down."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "large"


def event(text: str, finish: str | None = None, model: str = MODEL) -> bytes:
    """One event of a completion."""
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return b"data: " + json.dumps({"model": model, "choices": [choice]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
GOOD = event("four") + event(" score", "stop") + DONE


@dataclass
class Server:
    """Its handler answers a request by the first of ``script``, or the last one again and again."""

    script: list[Callable[[Handler], None]]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the test ends: handlers that wait go home."""
    left: threading.Event = field(default_factory=threading.Event)
    """Set when a client went away in the middle of an answer."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.mine.asked.append(json.loads(body))
        self._answer()

    @property
    def mine(self) -> Server:
        found: Server = self.server.mine
        return found

    def _answer(self) -> None:
        self.mine.paths.append(self.path)
        self.mine.headers.append({name.lower(): value for name, value in self.headers.items()})
        behave = self.mine.script.pop(0) if len(self.mine.script) > 1 else self.mine.script[0]
        try:
            behave(self)
        except (BrokenPipeError, ConnectionResetError):
            self.mine.left.set()
        self.close_connection = True

    def begin(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def wait(self, seconds: float) -> None:
        self.mine.over.wait(seconds)

    def log_message(self, format: str, *args: object) -> None:
        return


def says(
    *blocks: bytes, status: int = 200, kind: str = "text/event-stream", pause_s: float = 0.0, **headers: str
) -> Callable[[Handler], None]:
    """Answer with these blocks, ``pause_s`` apart."""

    def behave(handler: Handler) -> None:
        handler.begin(status, kind, **headers)
        for block in blocks:
            handler.wfile.write(block)
            handler.wfile.flush()
            if pause_s:
                handler.wait(pause_s)

    return behave


def silent(handler: Handler) -> None:
    """Take the request and answer nothing."""
    handler.wait(30)


def endless(block: bytes) -> Callable[[Handler], None]:
    """Send a block for ever."""

    def behave(handler: Handler) -> None:
        handler.begin()
        while not handler.mine.over.is_set():
            handler.wfile.write(block)

    return behave


def drips(handler: Handler) -> None:
    """Send a header that never ends, a byte at a time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
    while not handler.mine.over.is_set():
        handler.wfile.write(b"x")
        handler.wait(0.02)


def shuts(handler: Handler) -> None:
    """Close the connection without an answer."""


def dies(handler: Handler) -> None:
    """Close the connection in the middle of a chunk."""
    handler.begin(transfer_encoding="chunked")
    handler.wfile.write(b"%x\r\n" % 4000 + event("four"))


@contextmanager
def serving(*script: Callable[[Handler], None]) -> Iterator[Server]:
    mine = Server(list(script))
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.mine = mine  # type: ignore[attr-defined]
    mine.url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield mine
    finally:
        mine.over.set()
        http.shutdown()
        thread.join()
        http.server_close()
