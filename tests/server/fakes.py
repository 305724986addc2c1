"""A hub that says what a test wants, and a server over it on a port of this machine."""

from __future__ import annotations

import io
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx

from edgedec.bundle.preset import Preset
from edgedec.core.errors import NotFoundError
from edgedec.server.http.ending import address_of, listen
from edgedec.server.http.log import Log
from edgedec.server.http.serving import HttpServer
from edgedec.server.http.settings import ServerSettings
from edgedec.server.work.request import (
    ClosingError,
    GenerationRequest,
    ModelInfo,
    Piece,
    Status,
    TracedToken,
    Usage,
)
from edgedec.server.work.text_request import TextRequest
from edgedec.server.work.ticket import Ticket
from edgedec.session.token_logprob import TokenLogprob
from edgedec.text.reply_reader import ReplyReader, reader_of
from edgedec.text.template_inputs import TemplateInputs
from edgedec.text.tool_calls.hermes import HERMES

MODEL = "tiny"


@dataclass
class FakeHub:
    """Replies with ``words``, one a token, every ``pause_s``; notes what it is asked."""

    words: tuple[str, ...] = ("Hello", ",", " world", "!")
    pause_s: float = 0.0
    error: Exception | None = None
    """Raised at once by ``submit``."""
    late_error: Exception | None = None
    """Raised by the stream, behind the words."""
    close_s: float = 0.0
    """Time for replies in progress at the end; without any they are cut."""
    stop: str | None = None
    """The stop string that ends replies."""
    intake: Any = None
    """In place of the part of a model that reads requests."""
    loaded: list[str | None] = field(default_factory=list)
    asked: list[GenerationRequest] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    def models(self) -> list[ModelInfo]:
        preset = Preset(temperature=0.2)
        return [ModelInfo(name=MODEL, created=7, loaded=True, context=256, preset=preset, has_template=True)]

    def chats(self, name: str) -> bool:
        return True

    def load(self, name: str | None = None) -> None:
        self.loaded.append(name)

    def submit(self, request: GenerationRequest | TextRequest) -> Ticket:
        if self.error:
            raise self.error
        if self.closed.is_set():
            raise ClosingError("the server is shutting down")
        if request.model not in (None, MODEL):
            raise NotFoundError(f"there is no model {request.model!r}", hint=f"there is {MODEL}")
        ticket = Ticket(request, MODEL, arrived_s=0.0, deadline_s=math.inf)
        if isinstance(request, TextRequest):
            ticket.answered(request.ask(self.intake))
            return ticket
        self.asked.append(request)
        start = SimpleNamespace(reader=partial(_reader, request), shown="")
        ticket.inputs = SimpleNamespace(start=start, prompt=[1] * 9)  # type: ignore[assignment]
        self.tickets.append(ticket)
        threading.Thread(target=self._reply, args=(ticket,), daemon=True).start()
        return ticket

    def _reply(self, ticket: Ticket) -> None:
        asked = ticket.request
        assert isinstance(asked, GenerationRequest)
        words = self.words[: asked.max_tokens]
        reason = "stop" if len(words) == len(self.words) else "length"
        for job in ticket.jobs:
            ticket.begin(job)
        for word in words:
            for job in ticket.jobs:
                ticket.put(Piece(job.number, word, (self._token(word, asked.logprobs),)))
            time.sleep(self.pause_s)
            if ticket.cancelled or (self.closed.is_set() and not self.close_s):
                reason = "interrupted"
                break
        if self.late_error:
            ticket.fail(self.late_error)
        for job in ticket.jobs:
            ticket.end(job, reason, self._usage(len(words)), self.stop)

    @staticmethod
    def _token(word: str, logprobs: int | None) -> TracedToken:
        if logprobs is None:
            return TracedToken(1, word, "lookup")
        words = [f"{word}{at}" for at in range(max(logprobs, 1))]
        top = tuple(TokenLogprob(at, one, -float(at), (), one.encode()) for at, one in enumerate(words))
        return TracedToken(1, word, "lookup", TokenLogprob(99, word, -0.5, top, word.encode()))

    @staticmethod
    def _usage(tokens: int) -> Usage:
        return Usage(
            prompt_tokens=9, cached_tokens=4, completion_tokens=tokens, drafted_tokens=1, decode_s=0.1,
            passes=2, joules=1.0,
        )  # fmt: skip

    def status(self) -> Status:
        return Status(
            closing=self.closed.is_set(), uptime_s=1.0, memory_bytes=1000, memory_budget_bytes=None,
            running=0, waiting=0, slots=1, models=(), requests=len(self.asked), refused=0, failed=0,
            cancelled=0, prompt_tokens=9, cached_tokens=4, completion_tokens=4, drafted_tokens=1,
            passes=2, slot_passes=2,
        )  # fmt: skip

    def close(self, *, finish_s: float) -> None:
        self.closed.set()
        eventually(lambda: all(ticket.over for ticket in self.tickets), self.close_s)


def _reader(request: GenerationRequest) -> ReplyReader:
    """The reader of replies of a model that writes calls as Hermes does."""
    template = SimpleNamespace(source="<think></think>", call_family=lambda: HERMES)
    return reader_of(template, TemplateInputs(request.tools))  # type: ignore[arg-type]


@dataclass
class Running:
    """A server that runs, and its log."""

    url: str
    hub: Any
    lines: io.StringIO
    server: HttpServer

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]

    def line_of(self, answer: httpx.Response) -> dict[str, Any]:
        """The line of the log about an answer; it is written right after it."""
        wanted = answer.headers["x-request-id"]
        assert eventually(lambda: wanted in self.lines.getvalue())
        return next(line for line in self.log() if line.get("id") == wanted)

    def raw(self, data: bytes, *, wait_s: float = 5.0) -> bytes:
        """Send bytes as they are; return all that comes back."""
        with socket.create_connection(self.address, timeout=wait_s) as client:
            client.sendall(data)
            found = b""
            with suppress(TimeoutError, ConnectionError):
                while part := client.recv(65536):
                    found += part
            return found

    def client(self, **settings: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=20, trust_env=False, **settings)


@contextmanager
def running(hub: Any, tools: Any = None, **settings: Any) -> Iterator[Running]:
    """A server over ``hub`` in a thread; its page has ``tools``."""
    lines = io.StringIO()
    server = HttpServer(hub, ServerSettings(**{"finish_s": 2.0, **settings}), Log(lines.write), tools)
    ready = threading.Event()
    with listen("127.0.0.1", 0) as listening:
        url = address_of(listening)
        thread = threading.Thread(target=server.serve_on, args=(listening, ready.set))
        thread.start()
        try:
            assert ready.wait(10)
            yield Running(url, hub, lines, server)
        finally:
            server.end()
            thread.join(20)
            assert not thread.is_alive()


def eventually(holds: Callable[[], object], within_s: float = 5.0) -> bool:
    """Whether a condition holds soon."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.01)
    return bool(holds())
