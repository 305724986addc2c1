"""One streamed request in a thread of its own.

The reader waits for the thread no longer than the limits say, whatever the server, a name server or a proxy
does. The thread ends at its next block of bytes, or at the time limit of its connection.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from edgedec.core.errors import SideLost
from edgedec.remote.address import KEY_VARIABLE, ServerAddress
from edgedec.remote.allowance import Allowance
from edgedec.remote.completions import NoCompletion, error_in
from edgedec.remote.events import NoEvents

_RETRIED = (429, 500, 502, 503, 504)
_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 5.0
_MOST_ERROR_BYTES = 8192
_LOOK_EVERY_S = 0.1
WAITING = object()
"""Yielded in the place of a piece while nothing comes."""
_REASONS = {
    401: f"refused the key (401); {KEY_VARIABLE} holds it",
    403: f"refused the key (403); {KEY_VARIABLE} holds it",
    404: "has no such model or endpoint (404)",
    429: "is too busy (429)",
}
_SHOWN = (400, 404, 413, 422)
"""Statuses whose answer tells the user what to change."""
_NOT_OFFERED = (400, 404, 405, 422, 501)


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """``content`` is sent by POST; None: GET. ``kind`` is the content type that an answer must have."""

    path: str
    content: bytes | None
    kind: str
    most_bytes: int
    """Bytes of the longest answer."""


class ServerRefusal(SideLost):
    """A server is there, and gives no answer of the kind that was asked for."""


class NotOffered(ServerRefusal):
    """A server has no such endpoint, or refuses the fields of the request."""


class _Again(Exception):  # noqa: N818
    """An attempt failed before the first byte. ``pause_s``: the time that the server asks for."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


class _Begun:
    """Said to the reader when an attempt begins or a block arrived: its time starts anew."""


class _Ended:
    """Said to the reader after the last piece."""


AnswerReader = Callable[[Iterator[bytes]], Iterator[Any]]
"""Makes pieces of the blocks of an answer. May raise NoEvents and NoCompletion."""


@dataclass(slots=True)
class Transfer:
    """Requests to one server. ``clock`` counts seconds."""

    address: ServerAddress
    allowance: Allowance
    clock: Callable[[], float] = time.monotonic
    _client: httpx.Client | None = None
    _threads: list[threading.Thread] = field(default_factory=list)

    def pieces(self, request: RemoteRequest, read: AnswerReader) -> Generator[Any]:
        """Yield what ``read`` makes of the answer. Raises SideLost for every fault, and when time is up.

        Yields WAITING ten times a second while nothing comes, so that the caller can give up.
        """
        limits, found = self.allowance.limits, queue.SimpleQueue[Any]()
        stop = threading.Event()
        attempts = _Attempts(self, request, read, found.put, stop)
        thread = threading.Thread(target=attempts.run, name="edgedec-remote", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        began = self.clock()
        deadline, wait_s = began + limits.total_s, limits.connect_s + limits.read_s
        next_by = began + wait_s
        thread.start()
        try:
            while True:
                left_s = min(next_by, deadline) - self.clock()
                try:
                    piece = found.get(timeout=max(min(left_s, _LOOK_EVERY_S), 0.0))
                except queue.Empty:
                    if left_s > _LOOK_EVERY_S:
                        yield WAITING
                        continue
                    late = "took longer than" if next_by >= deadline else "was silent for"
                    limit_s = limits.total_s if next_by >= deadline else limits.read_s
                    raise self.lost(f"{late} {limit_s:g} s") from None
                if isinstance(piece, SideLost):
                    raise piece
                if piece is _Ended:
                    return
                if piece is not _Begun:
                    wait_s = limits.read_s
                    yield piece
                next_by = self.clock() + wait_s
        finally:
            stop.set()

    def lost(self, reason: str, kind: type[SideLost] = SideLost) -> SideLost:
        """Return the error with the server's name, and without the key."""
        return kind(self.address.without_key(f"{self.address.host} {reason}"))

    def client(self) -> httpx.Client:
        """Return the HTTP client. It follows no redirect and asks for no compression."""
        if self._client is None:
            limits = self.allowance.limits
            headers = {"User-Agent": "edgedec", "Accept-Encoding": "identity"}
            if self.address.key:
                headers["Authorization"] = f"Bearer {self.address.key}"
            self._client = httpx.Client(
                headers=headers,
                timeout=httpx.Timeout(limits.read_s, connect=limits.connect_s),
                follow_redirects=False,
                trust_env=not self.address.local,
            )
        return self._client

    def close(self, wait_s: float = 0.0) -> None:
        """Close connections. Threads of requests that were left have ``wait_s`` seconds to end."""
        if self._client is not None:
            self._client.close()
            self._client = None
        for thread in self._threads:
            thread.join(wait_s)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """The work of the thread. ``say`` takes pieces, ``_Begun``, ``_Ended`` or a SideLost."""

    transfer: Transfer
    request: RemoteRequest
    read: AnswerReader
    say: Callable[[Any], None]
    stop: threading.Event

    def run(self) -> None:
        try:
            self._run()
            self.say(_Ended)
        except SideLost as lost:
            self.say(lost)
        except Exception as error:  # the reader waits: it has to learn of any error
            self.say(self.transfer.lost(f"broke the connection ({type(error).__name__})"))

    def _run(self) -> None:
        limits = self.transfer.allowance.limits
        for attempt in range(limits.attempts):
            self.say(_Begun)
            try:
                self._attempt()
                return
            except _Again as again:
                pause_s = _PAUSE_S * 2.0**attempt if again.pause_s is None else again.pause_s
                if attempt + 1 == limits.attempts or pause_s > min(_LONGEST_PAUSE_S, limits.read_s):
                    raise self.transfer.lost(str(again)) from again
            if self.stop.wait(pause_s):
                return

    def _attempt(self) -> None:
        """Make one request. Raises _Again before the first byte of an answer, SideLost after it."""
        transfer, request = self.transfer, self.request
        transfer.allowance.send(len(request.content or b""))
        method = "GET" if request.content is None else "POST"
        headers = {"Accept": request.kind, "Content-Type": "application/json"}
        url = transfer.address.root + request.path
        try:
            with transfer.client().stream(method, url, content=request.content, headers=headers) as response:
                self._check(response)
                self._pass_on(response)
        except httpx.ConnectTimeout as error:
            raise _Again(f"gave no connection in {transfer.allowance.limits.connect_s:g} s") from error
        except httpx.TimeoutException as error:
            raise transfer.lost(f"was silent for {transfer.allowance.limits.read_s:g} s") from error
        except httpx.HTTPError as error:
            refused = isinstance(error, httpx.ConnectError)
            raise _Again("cannot be reached" if refused else "broke the connection") from error

    def _check(self, response: httpx.Response) -> None:
        """Raise for an answer that is no stream of the kind asked for."""
        status, transfer = response.status_code, self.transfer
        if 300 <= status < 400:
            where = httpx.URL(response.headers.get("location", "")).host or "another address"
            raise transfer.lost(f"sends us on to {where}, which was not named")
        if status != 200:
            reason = _REASONS.get(status, f"answered {status}")
            if status in _RETRIED:
                raise _Again(reason, _pause(response))
            told = self._error_text(response) if status in _SHOWN else ""
            kind_of_loss = NotOffered if status in _NOT_OFFERED else ServerRefusal
            raise transfer.lost(f"{reason}: {told}" if told else reason, kind_of_loss)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise transfer.lost("sends compressed text, which was not asked for")
        kind = response.headers.get("content-type", "no type").partition(";")[0].strip().lower()
        if kind != self.request.kind:
            raise transfer.lost(f"sends {kind:.40}, not {self.request.kind}", ServerRefusal)

    def _error_text(self, response: httpx.Response) -> str:
        import json

        found = b""
        for block in response.iter_raw():
            self.transfer.allowance.receive(len(block))
            found += block
            if len(found) > _MOST_ERROR_BYTES or self.stop.is_set():
                return ""
        try:
            answer = json.loads(found)
        except (ValueError, RecursionError):
            return ""
        return error_in(answer) if isinstance(answer, dict) else ""

    def _pass_on(self, response: httpx.Response) -> None:
        """Say the pieces of a stream. After its first byte every fault is final."""
        begun = False

        def blocks() -> Iterator[bytes]:
            nonlocal begun
            received = 0
            for block in response.iter_raw():
                begun = True
                received += len(block)
                self.transfer.allowance.receive(len(block))
                if self.stop.is_set():
                    return
                if received > self.request.most_bytes:
                    raise self.transfer.lost("sends more than was asked for")
                yield block

        try:
            for piece in self.read(blocks()):
                self.say(piece)
        except (NoEvents, NoCompletion) as error:
            raise self.transfer.lost(f"sent {error}", ServerRefusal) from error
        except httpx.TimeoutException:
            raise
        except httpx.HTTPError as error:
            if not begun:
                raise
            raise self.transfer.lost("broke off in the middle of its reply") from error


def _pause(response: httpx.Response) -> float | None:
    """Return the seconds of Retry-After; None without a number of them."""
    stated = response.headers.get("retry-after", "")
    return float(stated) if stated.isascii() and stated.isdigit() and len(stated) < 10 else None
