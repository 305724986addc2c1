"""One streamed request, within limits of time and bytes.

httpx gives up a connection and a read that take too long. It does not give up a name server that is silent,
a header that comes a byte at a time, or a stream of pings; and a wait in it ends at nothing but an exception.
So a thread makes the request, and the reader waits for the thread no longer than the limits say. The thread
ends at its next block of bytes, or at the time limit of httpx.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, field
from typing import Any

import httpx

from edgedec.core.errors import SideLost, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.remote.address import KEY_VARIABLE, ServerAddress
from edgedec.remote.completions import NoCompletion, error_in, parsed
from edgedec.remote.proxies import proxy_fault

_RETRIED = (429, 500, 502, 503, 504)
_PAUSES_S = (0.25, 1.0)
_MOST_ERROR_BYTES = 8192
_LOOK_EVERY_S = 0.1
WAITING = object()
"""Yielded in the place of a piece while nothing comes."""
_ENDED = object()
"""Said to the reader after the last piece."""
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
class RemoteLimits:
    """Seconds until there is a connection, until the next piece of text, and until the last one.

    Raises UsageError for a limit that is not positive.
    """

    connect_s: float = 5.0
    read_s: float = 30.0
    total_s: float = 300.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise UsageError(f"{name} = {value} is no limit", hint="a limit is above 0")


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
    """An attempt failed before the first byte."""


class _TooMuch(Exception):  # noqa: N818
    """An answer is longer than it may be."""


class _Bounded(httpx.SyncByteStream):
    """An answer's bytes, up to ``most``. Raises _TooMuch."""

    def __init__(self, answer: httpx.Response, most: int, left: threading.Event) -> None:
        assert isinstance(answer.stream, httpx.SyncByteStream)
        self._stream, self._most, self._left = answer.stream, most, left
        self.received = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self._stream:
            self.received += len(block)
            if self.received > self._most or self._left.is_set():
                raise _TooMuch
            yield block

    def close(self) -> None:
        self._stream.close()


AnswerReader = Callable[[httpx.Response], Iterator[Any]]
"""Makes pieces of an answer. May raise NoCompletion."""


@dataclass(slots=True)
class Transfer:
    """Requests to one server. ``clock`` counts seconds."""

    address: ServerAddress
    limits: RemoteLimits
    clock: Callable[[], float] = time.monotonic
    _client: httpx.Client | None = None
    _threads: list[threading.Thread] = field(default_factory=list)

    def pieces(self, request: RemoteRequest, read: AnswerReader) -> Generator[Any]:
        """Yield what ``read`` makes of the answer. Raises SideLost for every fault, and when time is up.

        Yields WAITING ten times a second while nothing comes, so that the caller can give up.
        """
        limits, found, left = self.limits, queue.SimpleQueue[Any](), threading.Event()
        work = (request, read, found.put, left)
        thread = threading.Thread(target=self._work, args=work, name="edgedec-remote", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        began = self.clock()
        silent_by = began + limits.connect_s + limits.read_s
        thread.start()
        try:
            while True:
                try:
                    piece = found.get(timeout=_LOOK_EVERY_S)
                except queue.Empty:
                    piece = WAITING
                if isinstance(piece, SideLost):
                    raise piece
                if piece is _ENDED:
                    return
                if self.clock() > began + limits.total_s:
                    raise self.lost(f"took longer than {limits.total_s:g} s")
                if piece is WAITING and self.clock() > silent_by:
                    raise self.lost(f"was silent for {limits.read_s:g} s")
                yield piece
                if piece is not WAITING:
                    silent_by = self.clock() + limits.read_s
        finally:
            left.set()

    def lost(self, reason: str, kind: type[SideLost] = SideLost) -> SideLost:
        """Return the error with the server's name, and without the key."""
        return kind(self.address.without_key(f"{self.address.host} {reason}"))

    def client(self) -> httpx.Client:
        """Return the HTTP client. It follows no redirect and asks for no compression."""
        if self._client is None:
            headers = {"User-Agent": "edgedec", "Accept-Encoding": "identity"}
            if self.address.key:
                headers["Authorization"] = f"Bearer {self.address.key}"
            self._client = httpx.Client(
                headers=headers,
                timeout=httpx.Timeout(self.limits.read_s, connect=self.limits.connect_s),
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

    def _work(
        self, request: RemoteRequest, read: AnswerReader, say: Callable[[Any], None], left: threading.Event
    ) -> None:
        """Say the pieces of an answer, then _ENDED; for any fault a SideLost, which has no cause to show."""
        for pause_s in (*_PAUSES_S, None):
            try:
                for piece in self._attempt(request, read, left):
                    say(piece)
                say(_ENDED)
            except _Again as again:
                if pause_s is None:
                    say(self.lost(str(again)))
                elif not left.wait(pause_s):
                    continue
            except SideLost as lost:
                say(lost)
            except Exception as error:  # the reader waits: it has to learn of any error
                fault = proxy_fault(error)
                say(
                    SideLost(fault[0], hint=fault[1])
                    if fault
                    else self.lost(f"broke the connection ({type(error).__name__})")
                )
            return

    def _attempt(self, request: RemoteRequest, read: AnswerReader, left: threading.Event) -> Iterator[Any]:
        """Make one request. Raises _Again before the first byte of an answer, SideLost after it."""
        method = "GET" if request.content is None else "POST"
        headers = {"Accept": request.kind, "Content-Type": "application/json"}
        url, received = self.address.root + request.path, None
        try:
            with self.client().stream(method, url, content=request.content, headers=headers) as answer:
                self._check(answer, request.kind, left)
                answer.stream = received = _Bounded(answer, request.most_bytes, left)
                answer.encoding = "utf-8"
                yield from read(answer)
        except NoCompletion as error:
            raise self.lost(f"sent {error}", ServerRefusal) from None
        except _TooMuch:
            raise self.lost("sends more than was asked for") from None
        except httpx.ConnectTimeout:
            raise _Again(f"gave no connection in {self.limits.connect_s:g} s") from None
        except httpx.TimeoutException:
            raise self.lost(f"was silent for {self.limits.read_s:g} s") from None
        except httpx.HTTPError as error:
            if received and received.received:
                raise self.lost("broke off in the middle of its reply") from None
            refused = isinstance(error, httpx.ConnectError)
            raise _Again("cannot be reached" if refused else "broke the connection") from None

    def _check(self, answer: httpx.Response, wanted: str, left: threading.Event) -> None:
        """Raise for an answer that is no stream of the kind asked for."""
        status = answer.status_code
        if 300 <= status < 400:
            where = httpx.URL(answer.headers.get("location", "")).host or "another address"
            raise self.lost(f"sends us on to {where}, which was not named")
        if status != 200:
            reason = _REASONS.get(status, f"answered {status}")
            if status in _RETRIED:
                raise _Again(reason)
            told = self._error_text(answer, left) if status in _SHOWN else ""
            kind_of_loss = NotOffered if status in _NOT_OFFERED else ServerRefusal
            raise self.lost(f"{reason}: {told}" if told else reason, kind_of_loss)
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise self.lost("sends compressed text, which was not asked for")
        kind = answer.headers.get("content-type", "no type").partition(";")[0].strip().lower()
        if kind != wanted:
            raise self.lost(f"sends {self.address.without_key(kind):.40}, not {wanted}", ServerRefusal)

    def _error_text(self, answer: httpx.Response, left: threading.Event) -> str:
        answer.stream = _Bounded(answer, _MOST_ERROR_BYTES, left)
        try:
            return error_in(parsed(answer.read().decode("utf-8", "replace"), self.address.without_key))
        except (_TooMuch, NoCompletion, httpx.DecodingError):
            return ""
