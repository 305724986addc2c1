"""The ASGI application of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response

from edgedec.core.errors import EdgeDecError
from edgedec.server.http.answers import error_answer
from edgedec.server.http.exchange import exchange_of
from edgedec.server.http.faults import noted
from edgedec.server.http.gate import Gate
from edgedec.server.http.log import Log
from edgedec.server.http.metrics import Metrics
from edgedec.server.http.page_tools import PageTools
from edgedec.server.http.reading import BodyReader
from edgedec.server.http.routes import Endpoints
from edgedec.server.http.settings import ServerSettings
from edgedec.server.wire.errors import ApiError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from edgedec.mcp.servers import ToolServers
    from edgedec.server.work.hub import Hub

_WORDS = {404: "there is no such path", 405: "the path does not take this method"}


def application(
    hub: Hub,
    settings: ServerSettings | None = None,
    log: Log | None = None,
    tools: ToolServers | None = None,
) -> ASGIApp:
    """Return the application over ``hub``, the page of which may use ``tools``."""
    settings, metrics = settings or ServerSettings(), Metrics(hub.status)
    bodies = BodyReader(settings)
    app = Starlette(
        routes=[*PageTools(bodies, tools).routes(), *Endpoints(hub, bodies, metrics).routes()],
        exception_handlers={
            HTTPException: _http_error,
            ApiError: _api_error,
            EdgeDecError: _api_error,
            Exception: _api_error,
        },
    )
    app.router.redirect_slashes = False
    return Gate(app, settings, log or Log(), metrics)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = _WORDS.get(error.status_code, "the request cannot be answered")
    found = ApiError(error.status_code, f"{words}: {request.method} {request.url.path[:100]}")
    found.headers |= error.headers or {}
    return error_answer(found, request.url.path)


async def _api_error(request: Request, error: Exception) -> Response:
    found = noted(error, exchange_of(request.scope))
    return error_answer(found, request.url.path, close=found.status in (408, 413))
