"""Servers under load: time to the first token and tokens per second, for 1, 2, 4, 8 clients.

Servers are measured by their address, so every server with OpenAI's ``/v1/chat/completions`` can take part;
they must have been started. They take turns at each number of clients.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import field

import httpx
import numpy as np
from httpx_sse import aconnect_sse

from edgedec.bench.harness.pairing import rotated, rounded
from edgedec.core.errors import SideLost
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

REPLY_S = 600.0
"""Longest time of a reply, in seconds."""
_CHECKED = 4
"""Replies of each load that are asked for again, alone."""
_DONE = "[DONE]"
_PERCENTILES = (50, 95)


@dataclass(frozen=True, slots=True)
class ServingStudy:
    """Conversations that clients have with each server; each is the user's turns of it.

    Replies are greedy. ``clients``: numbers of clients at once. Every conversation begins with its own
    number, so that no server has its first turn in a cache.
    """

    servers: Sequence[str]
    conversations: Sequence[Sequence[str]]
    clients: Sequence[int]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class TimedReply:
    """One reply: seconds to its first text, seconds from there to its end, and its tokens."""

    first_s: float
    rest_s: float
    tokens: int
    text: str
    turn: int = 0

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second after the first one; 0 for a single token."""
        return (self.tokens - 1) / self.rest_s if self.tokens > 1 and self.rest_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ServingRow:
    """One server under one load.

    - ``first_s`` and ``later_s``: seconds to the first text of a conversation's first reply and of later
      ones, at 50 and 95 %.
    - ``each_tokens_per_s``: tokens per second of one reply after its first token; 95 % of the replies are
      at least as fast as the second number.
    - ``tokens_per_s``: all replies together, prompts' time included.
    - ``differ``: of ``checked`` replies, those that are not the one that the server gives alone.
    """

    server: str
    clients: int
    replies: int = 0
    tokens: int = 0
    tokens_per_s: float = 0.0
    first_s: tuple[float, ...] = ()
    later_s: tuple[float, ...] = ()
    each_tokens_per_s: tuple[float, ...] = ()
    checked: int = 0
    differ: int = 0
    failed: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return it as JSON fields; those of pairs get ``p50`` and ``p95``."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: _json_of(fact) for name, fact in facts.items()}


async def measure_serving(study: ServingStudy, progress: Progress) -> list[ServingRow]:
    """Put every load on every server, one server at a time, and measure.

    Raises SideLost for a server that does not answer at all.
    """
    found: list[ServingRow] = []
    total = len(study.clients) * len(study.servers)
    models = {server: await _model_of(server) for server in study.servers}
    for turn, clients in enumerate(study.clients):
        for server in rotated(study.servers, turn):
            progress(f"{clients} clients", len(found), total)
            found.append(await _Load(study, server, models[server], clients).run())
    progress("done", total, total)
    return found


class _Load:
    """``clients`` clients at one server."""

    def __init__(self, study: ServingStudy, server: str, model: str, clients: int) -> None:
        self._study, self._server, self._model, self._clients = study, server, model, clients
        self._replies: list[TimedReply] = []
        self._asked: list[tuple[list[dict[str, str]], str]] = []
        self._failed: list[str] = []

    async def run(self) -> ServingRow:
        waiting = list(enumerate(self._study.conversations))[::-1]

        async def client(http: httpx.AsyncClient) -> None:
            while waiting:
                await self._converse(http, *waiting.pop())

        async with _http() as http:
            began = time.perf_counter()
            await _gather([lambda: client(http) for _ in range(self._clients)])
            seconds = time.perf_counter() - began
            asked = self._asked[:_CHECKED] if self._clients > 1 else []
            alone = [(await self._reply(http, messages, 0)).text for messages, _ in asked]
        return self._row(seconds, sum(one != text for one, (_, text) in zip(alone, asked, strict=True)))

    async def _converse(self, http: httpx.AsyncClient, number: int, turns: Sequence[str]) -> None:
        messages: list[dict[str, str]] = []
        for turn, text in enumerate(turns):
            named = text if turn else f"({self._clients}.{number}) {text}"
            messages.append({"role": "user", "content": named})
            try:
                reply = await self._reply(http, messages, turn)
            except (httpx.HTTPError, SideLost) as error:
                self._failed.append(str(error) or type(error).__name__)
                return
            self._replies.append(reply)
            self._asked.append((list(messages), reply.text))
            messages.append({"role": "assistant", "content": reply.text})

    async def _reply(self, http: httpx.AsyncClient, messages: list[dict[str, str]], turn: int) -> TimedReply:
        body = {"model": self._model, "messages": messages, "stream": True, "temperature": 0}
        body |= {"max_tokens": self._study.max_tokens, "stream_options": {"include_usage": True}}
        began, first, pieces, tokens = time.perf_counter(), None, [], 0
        async for text, counted in _pieces(http, f"{self._server}/chat/completions", body):
            if text and first is None:
                first = time.perf_counter()
            pieces.append(text)
            tokens = counted or tokens
        end = time.perf_counter()
        first = end if first is None else first
        return TimedReply(first - began, end - first, tokens or len(pieces), "".join(pieces), turn)

    def _row(self, seconds: float, differ: int) -> ServingRow:
        replies = self._replies
        tokens = sum(one.tokens for one in replies)
        return ServingRow(
            self._server,
            self._clients,
            len(replies),
            tokens,
            tokens / seconds,
            percentiles([one.first_s for one in replies if not one.turn]),
            percentiles([one.first_s for one in replies if one.turn]),
            percentiles([one.tokens_per_s for one in replies if one.tokens > 1], best="high"),
            min(_CHECKED, len(self._asked)) if self._clients > 1 else 0,
            differ,
            self._failed,
        )


def percentiles(values: Sequence[float], best: str = "low") -> tuple[float, ...]:
    """Return the values that 50 and 95 % of all reach; nothing of no values. ``best``: "low" or "high"."""
    if not values:
        return ()
    shares = [share if best == "low" else 100 - share for share in _PERCENTILES]
    return tuple(float(np.percentile(values, share)) for share in shares)


async def _pieces(http: httpx.AsyncClient, url: str, body: object) -> AsyncIterator[tuple[str, int]]:
    """Yield pieces of text, with the number of tokens where the server states it.

    Raises SideLost for an answer that is no stream of completions, and httpx's errors.
    """
    async with aconnect_sse(http, "POST", url, json=body) as events:
        if events.response.status_code != httpx.codes.OK:
            await events.response.aread()
            raise SideLost(f"{url} answers {events.response.status_code}: {events.response.text[:200]}")
        async for event in events.aiter_sse():
            if event.data == _DONE:
                return
            chunk = json.loads(event.data)
            if "error" in chunk:
                raise SideLost(f"{url} broke off: {str(chunk['error'])[:200]}")
            deltas = [choice.get("delta", {}) for choice in chunk.get("choices", [])]
            text = "".join(delta.get("content") or delta.get("reasoning_content") or "" for delta in deltas)
            yield text, (chunk.get("usage") or {}).get("completion_tokens", 0)


async def _model_of(server: str) -> str:
    """Return the first model of a server. Raises SideLost when it has none or does not answer."""
    try:
        async with _http() as http:
            answer = await http.get(f"{server}/models")
        return str(answer.raise_for_status().json()["data"][0]["id"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise SideLost(
            f"no list of models at {server}/models ({error})", hint="start the server first"
        ) from error


def _http() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=REPLY_S, limits=httpx.Limits(max_connections=None), trust_env=False)


async def _gather(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    await asyncio.gather(*(call() for call in calls))


def _json_of(fact: object) -> object:
    if isinstance(fact, tuple):
        return {f"p{share}": rounded(value) for share, value in zip(_PERCENTILES, fact, strict=False)}
    return rounded(fact) if isinstance(fact, float) else fact
