"""Mixed load on a server: clients that behave, hang up, send garbage, or read a byte a second.

The server is a process of its own. Its answers to well-behaved clients are compared with the replies of the
Python API; its memory is read while it runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

START_S = 120.0
FINISH_S = 30.0
_RSS_EVERY_S = 0.5
_GARBAGE = (
    b"\x00" * 64,
    b"GET / HTTP/1.1\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n{",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"BREW /coffee HTTP/9.9\r\n\r\n",
)
_BAD_BODIES: tuple[Any, ...] = (
    {},
    [],
    {"messages": "hello"},
    {"messages": [{"role": "king", "content": "x"}]},
    {"messages": [{"role": "user", "content": "x"}], "temperature": "hot"},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    {"messages": [{"role": "user", "content": "x"}], "n": 10**9},
    {"messages": [{"role": "user", "content": "x"}], "max_tokens": -1},
    {"messages": [{"role": "user", "content": "word " * 200_000}]},
    {
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "(a*)*" * 500}},
        },
    },
)


@dataclass(frozen=True, slots=True)
class Question:
    """A request whose only right answer is known."""

    body: Mapping[str, Any]
    answer: str


@dataclass(slots=True)
class LoadReport:
    """Counts of what happened, and the server's memory over time in bytes."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    rss: list[tuple[float, int]] = field(default_factory=list)
    exit_status: int | None = None
    said: str = ""

    def peak(self, begin: float, end: float) -> int:
        """Return the greatest memory between two shares of the time."""
        last = self.rss[-1][0]
        return max(size for at, size in self.rss if begin * last <= at <= end * last)


class ServerProcess:
    """``edgedec serve`` on a free port of loopback."""

    def __init__(self, *arguments: str, env: Mapping[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "edgedec", "serve", *arguments, "--port", str(self.port)]
        self.process = subprocess.Popen(
            command, env=dict(env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def wait(self) -> None:
        """Wait until it answers. Raises AssertionError with its own words when it ends or stays silent."""
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/health", trust_env=False).status_code == httpx.codes.OK:
                    return
            time.sleep(0.1)
        self.process.kill()
        raise AssertionError(self.process.communicate()[1])

    def rss(self) -> int:
        """Return the memory that it holds now, in bytes."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> tuple[int, str]:
        """Send SIGTERM; return its exit status and what it wrote."""
        self.process.send_signal(signal.SIGTERM)
        try:
            said = self.process.communicate(timeout=FINISH_S)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = self.process.communicate()[1]
        return self.process.returncode, said


async def put_load(server: ServerProcess, questions: Sequence[Question], seconds: float) -> LoadReport:
    """Let clients of every kind ask for ``seconds``; return what was seen."""
    report = LoadReport()
    began, end = time.monotonic(), time.monotonic() + seconds
    async with httpx.AsyncClient(timeout=120.0, trust_env=False) as http:

        async def repeat(kind: Callable[[], Awaitable[str]]) -> None:
            while time.monotonic() < end:
                report.counts[await kind()] += 1

        async def watch() -> None:
            while time.monotonic() < end:
                report.rss.append((time.monotonic() - began, server.rss()))
                await asyncio.sleep(_RSS_EVERY_S)

        clients = _Clients(server, http, questions, report)
        kinds = [clients.asks, clients.asks, clients.streams, clients.streams, clients.hangs_up]
        kinds += [clients.sends_garbage, clients.sends_bad_body, clients.reads_slowly]
        await asyncio.gather(watch(), *(repeat(kind) for kind in kinds))
    return report


class _Clients:
    """One of each kind; every method is one visit and returns the name of what happened."""

    def __init__(
        self,
        server: ServerProcess,
        http: httpx.AsyncClient,
        questions: Sequence[Question],
        report: LoadReport,
    ) -> None:
        self._server, self._http, self._questions, self._report = server, http, questions, report
        self._dice = random.Random(7)
        self._address = f"{server.url}/v1/chat/completions"

    async def asks(self) -> str:
        """Ask, and read the whole answer."""
        question = self._dice.choice(self._questions)
        answer = await self._http.post(self._address, json=dict(question.body))
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return await self._waits(answer)
        if answer.status_code != httpx.codes.OK:
            return self._wrong(question, answer.text)
        return self._judged(question, answer.json()["choices"][0]["message"]["content"])

    async def streams(self) -> str:
        """Ask for a stream, and read it whole."""
        question = self._dice.choice(self._questions)
        pieces: list[str] = []
        async with self._http.stream("POST", self._address, json=self._streamed(question)) as answer:
            if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                return await self._waits(answer)
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    chunk = json.loads(line[len("data: ") :])
                    pieces += [one["delta"].get("content") or "" for one in chunk.get("choices", [])]
        return self._judged(question, "".join(pieces))

    async def hangs_up(self) -> str:
        """Go away in the middle of a reply, or before it."""
        question = self._dice.choice(self._questions)
        lines, most = 0, self._dice.randrange(6)
        with suppress(httpx.HTTPError, TimeoutError):
            async with (
                asyncio.timeout(self._dice.uniform(0.01, 3.0)),
                self._http.stream("POST", self._address, json=self._streamed(question)) as answer,
            ):
                async for _ in answer.aiter_lines():
                    lines += 1
                    if lines > most:
                        break
        return "hung up"

    async def sends_garbage(self) -> str:
        """Send bytes that are no request."""
        await self._raw(self._dice.choice(_GARBAGE) + self._dice.randbytes(self._dice.randrange(200)), 1.0)
        return "garbage"

    async def sends_bad_body(self) -> str:
        """Send a request that must be refused, in OpenAI's form."""
        body = self._dice.choice(_BAD_BODIES)
        answer = await self._http.post(self._address, json=body)
        await asyncio.sleep(0.2)
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return "busy"
        fine = 400 <= answer.status_code < 500 and answer.json().get("error", {}).get("message")
        return "refused" if fine else self._wrong(body, f"{answer.status_code} {answer.text}")

    async def reads_slowly(self) -> str:
        """Ask for a stream, and read a byte a second for a while."""
        body = json.dumps(self._streamed(self._dice.choice(self._questions))).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{self._server.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        await self._raw(head.encode() + body, 1.0, reads=15)
        return "read slowly"

    async def _raw(self, data: bytes, wait_s: float, reads: int = 1) -> None:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port, limit=2)
            writer.write(data)
            for _ in range(reads):
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), wait_s)
                await asyncio.sleep(wait_s)
            writer.close()

    async def _waits(self, answer: httpx.Response) -> str:
        await asyncio.sleep(min(float(answer.headers["retry-after"]), 2.0))
        return "busy"

    def _judged(self, question: Question, text: str) -> str:
        return "right" if text == question.answer else self._wrong(question, text)

    def _wrong(self, asked: object, text: str) -> str:
        self._report.wrong.append(f"{str(asked)[:300]} -> {text[:300]!r}")
        return "wrong"

    def _streamed(self, question: Question) -> dict[str, Any]:
        return {**question.body, "stream": True}
