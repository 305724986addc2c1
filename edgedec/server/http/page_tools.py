"""Tools of other programs for the page, and for nothing else that can reach the server.

The page of another site can send requests to this machine. It is told from our own page by the browser, which
says of each request which site made it, and by a token that only our own page can read. A program that is not
a browser has no page.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from edgedec.core.errors import UsageError
from edgedec.server.http.answers import json_answer
from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.tool_call import ToolCallBody

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from edgedec.mcp.servers import ToolServers
    from edgedec.mcp.tool import McpTool
    from edgedec.server.http.reading import BodyReader

TOKEN_HEADER = "x-edgedec-page"
_AT_ONCE = 4
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "via")
"""Headers of proxies, behind which other machines may be."""


class PageTools:
    """Endpoints that list tools and call them; without ``servers`` there are none."""

    def __init__(self, bodies: BodyReader, servers: ToolServers | None) -> None:
        self._bodies, self._servers = bodies, servers
        self._token = secrets.token_urlsafe(32)
        self._room = asyncio.Semaphore(_AT_ONCE)

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        return [
            Route("/edgedec/tools", self.tools),
            Route("/edgedec/tools/call", self.call, methods=["POST"]),
        ]

    async def tools(self, request: Request) -> Response:
        """List the tools, with the token for calls."""
        if self._servers is None:
            return json_answer({"tools": []})
        _of_own_page(request)
        found = await run_in_threadpool(lambda: self._listed)
        return json_answer({"tools": found, "token": self._token})

    async def call(self, request: Request) -> Response:
        """Call a tool, and return its result as the model is to read it."""
        if self._servers is None:
            raise ApiError(404, "this server has no tools")
        _of_own_page(request)
        given = request.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            raise ApiError(403, "the page is of another start of this server; reload it", code="wrong_page")
        async with self._bodies.body(request) as data:
            body = await run_in_threadpool(ToolCallBody.read, data)
        body.refuse_others()
        tool = self._servers.named(body.name)
        if tool is None:
            raise ApiError(404, f"there is no tool {body.name[:100]!r}", param="name", code="no_tool")
        if not (tool.allowed or body.confirmed):
            raise ApiError(403, f"nobody has confirmed the call of {tool.name}", code="not_confirmed")
        try:
            await run_in_threadpool(tool.check, body.arguments)
        except UsageError as error:
            return json_answer({"text": f"wrong arguments: {error.message}", "failed": True})
        async with self._room:
            outcome = await run_in_threadpool(self._servers.call, tool, body.arguments)
        return json_answer({"text": outcome.text or "done", "failed": outcome.failed})

    @cached_property
    def _listed(self) -> list[dict[str, Any]]:
        assert self._servers is not None
        return [_described(tool) for tool in self._servers.tools]


def _described(tool: McpTool) -> dict[str, Any]:
    """Return a tool for the page; one whose schema a grammar keeps to is strict, so that calls are valid."""
    from edgedec.session.tool_schemas import kept_functions

    given = tool.as_openai()
    strict = {**given["function"], "strict": True}
    try:
        kept_functions([strict])
    except UsageError:
        strict = given["function"]
    return {"tool": {**given, "function": strict}, "server": tool.server.name, "allowed": tool.allowed}


def _of_own_page(request: Request) -> None:
    """Raise ApiError for a request that no page of this server made, on this machine."""
    headers = request.headers
    if any(name in headers for name in _FORWARDED):
        raise ApiError(403, "tools are for this machine alone, without a proxy", code="forbidden_page")
    if headers.get("sec-fetch-site") != "same-origin":
        words = "tools are for the page of this server, in a browser that says so (sec-fetch-site)"
        raise ApiError(403, words, code="forbidden_page")
