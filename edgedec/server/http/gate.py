"""Around each request: its host, origin, key and headers before, its log, metrics and errors after."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware

from edgedec.remote.address import is_loopback
from edgedec.server.http.answers import error_answer
from edgedec.server.http.exchange import Exchange, keep
from edgedec.server.http.faults import noted
from edgedec.server.http.lingering import Incoming
from edgedec.server.http.settings import HEADER_BYTES, HEADERS, ServerSettings
from edgedec.server.wire.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from edgedec.server.http.log import Log
    from edgedec.server.http.metrics import Metrics

OPEN_PATHS = ("/", "/health")
"""Paths that need no key, with all below ``/page/``."""
_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""Headers of every answer that does not set them itself."""
_METHODS = ("GET", "POST")
_SHOWN = ("retry-after", "x-request-id")
"""Headers that pages of other sites may read."""


class Gate:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, log: Log, metrics: Metrics) -> None:
        self._app, self._settings, self._log, self._metrics = app, settings, log, metrics
        self._answered: ASGIApp = self._checked
        if settings.origins:
            self._answered = CORSMiddleware(
                self._checked,
                allow_origins=settings.origins,
                allow_methods=_METHODS,
                allow_headers=("*",),
                allow_private_network=True,
                expose_headers=_SHOWN,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; nothing but the end of the server's task leaves this function as an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(scope["method"], scope["path"])
        keep(scope, exchange)
        incoming = Incoming(receive)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                _complete(MutableHeaders(scope=message), exchange)
            await incoming.answer(message, send)

        try:
            await self._answered(scope, incoming.receive, answer)
        except Exception as error:  # the one place that may: whatever it is, the client gets an answer
            await _failed(error, exchange, (scope, incoming.receive, answer))
        finally:
            exchange.route = getattr(scope.get("endpoint"), "__name__", "other")
            self._log.request(exchange)
            self._metrics.request(exchange)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        if refusal := self._refusal(scope):
            await error_answer(refusal, scope["path"], close=True)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        size = sum(len(name) + len(value) for name, value in headers.raw)
        if size > HEADER_BYTES or len(headers.raw) > HEADERS:
            return ApiError(431, f"the headers are longer than {HEADER_BYTES} bytes, or more than {HEADERS}")
        hosts = headers.getlist("host")
        if len(hosts) > 1 or (self._settings.loopback and not is_local(hosts)):
            words = "the header host does not name this machine; use localhost or 127.0.0.1"
            return ApiError(403, words, code="forbidden_host")
        if self._settings.key is None and not self._may_ask(headers):
            words = "pages of other sites may not ask here, unless the server names them as allowed origins"
            return ApiError(403, words, code="forbidden_origin")
        path = scope["path"]
        if path not in OPEN_PATHS and not path.startswith("/page/"):
            return self._without_key(headers)
        return None

    def _may_ask(self, headers: Headers) -> bool:
        """Whether a request is of no page, of a page of this server, or of one that is allowed.

        A page cannot set the headers by which this is told, but ``x-forwarded-host``, for which a browser
        asks first. So they hold behind a proxy, too, which sends another host.
        """
        origin, allowed = headers.get("origin"), self._settings.origins
        if origin is None or origin in allowed or "*" in allowed:
            return True
        if site := headers.get("sec-fetch-site"):
            return site == "same-origin"
        forwarded = chain.from_iterable(one.split(",") for one in headers.getlist("x-forwarded-host"))
        hosts = [*headers.getlist("host"), *(one.strip() for one in forwarded)]
        try:
            return urlsplit(origin).netloc in hosts
        except ValueError:
            return False

    def _without_key(self, headers: Headers) -> ApiError | None:
        given = headers.get("authorization", "")
        alone = headers.get("x-api-key", "")  # as Anthropic's clients send it, beside the other or alone
        if self._settings.admits(given) or self._settings.admits(f"Bearer {alone}"):
            return None
        what = "a key is needed: send the header authorization: Bearer KEY"
        if given or alone:
            what = "the key is wrong"
        error = ApiError(401, what, code="invalid_api_key")
        error.headers["www-authenticate"] = "Bearer"
        return error


def _complete(headers: MutableHeaders, exchange: Exchange) -> None:
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    headers["x-request-id"] = exchange.id


def is_local(hosts: list[str]) -> bool:
    """Whether the headers ``host`` of a request are one, and it names this machine."""
    try:
        return len(hosts) == 1 and is_loopback(urlsplit(f"//{hosts[0]}").hostname or "")
    except ValueError:
        return False


async def _failed(error: Exception, exchange: Exchange, how: tuple[Scope, Receive, Send]) -> None:
    """Answer a request that ended in an error, unless its answer has begun."""
    found = noted(error, exchange)
    if not exchange.status:
        await error_answer(found, exchange.path, close=True)(*how)
