"""Serves the files of one folder to this machine: those that are listed, to read, with ranges."""

from __future__ import annotations

import mimetypes
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from edgedec.server.http.ending import EndingServer
from edgedec.server.http.gate import is_local

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_INDEX = "index.html"
_KINDS = {
    ".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".json": "application/json",
    ".svg": "image/svg+xml", ".wasm": "application/wasm",
}  # fmt: skip
_HEADERS = {
    "cache-control": "no-cache",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""``no-cache``: a browser asks whether its copy is still the right one, and usually gets no body.

The embedder's and the opener's policy isolate the page, which gives it threads with shared memory.
"""
_CONNECTIONS = 128
_IDLE_S, _FINISH_S = 30, 2


class FileServer(EndingServer):
    """Serves the files of ``directory`` that ``names`` lists, at paths of their names."""

    def __init__(self, directory: Path, names: Collection[str]) -> None:
        super().__init__(
            file_application(directory, names),
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=_FINISH_S,
        )


def know_kinds() -> None:
    """Give files of pages their types, of which systems know others, or none."""
    for suffix, kind in _KINDS.items():
        mimetypes.add_type(kind, suffix)


def file_application(directory: Path, names: Collection[str]) -> ASGIApp:
    """Return the ASGI application over the files of ``directory`` that ``names`` lists."""
    know_kinds()
    files = _Listed(directory, frozenset(names))

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        try:
            response: ASGIApp = await files.response(scope)
        except HTTPException as error:
            response = PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)
        await response(scope, receive, complete)

    return answer


class _Listed(StaticFiles):
    def __init__(self, directory: Path, names: frozenset[str]) -> None:
        super().__init__(directory=directory)
        self._names = names

    async def response(self, scope: Scope) -> Response:
        """Return the answer to a request. Raises HTTPException."""
        if not is_local(Headers(scope=scope).getlist("host")):
            raise HTTPException(403, "the header host does not name this machine; use localhost or 127.0.0.1")
        name = scope["path"].removeprefix("/") or _INDEX
        if name not in self._names:
            raise HTTPException(404, "there is no such file")
        return await self.get_response(name, scope)
