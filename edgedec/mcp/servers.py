"""Runs tool servers beside a chat, and calls their tools.

One thread has the event loop of all servers. Each server has a task that starts it, keeps its session, and
ends it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from edgedec.core.errors import BackendError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.installing import pip_install
from edgedec.mcp.config import ServerCommand
from edgedec.mcp.tool import McpTool, named_apart, result_text

if TYPE_CHECKING:
    from mcp import ClientSession

_MOST_TOOLS = 500
_START_S, _END_S = 60.0, 10.0
"""Longest times for a server to start, and to end."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The result of a call. ``failed``: the tool, or its server, could not do it."""

    text: str
    failed: bool = False


class _Server:
    """A server that runs: its session, and the event that ends it."""

    def __init__(self, command: ServerCommand, errors: IO[str]) -> None:
        self.command, self.errors = command, errors
        self.started: Future[list[Any]] = Future()
        self.session: ClientSession | None = None
        self.end = asyncio.Event()

    async def run(self) -> None:
        """Start, list the tools, and wait for the end."""
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import get_default_environment, stdio_client

        given = self.command
        variables = {**get_default_environment(), **given.variables}
        parameters = StdioServerParameters(command=given.command, args=[*given.arguments], env=variables)
        try:
            async with (
                stdio_client(parameters, cast("TextIO", self.errors)) as (reads, writes),
                ClientSession(reads, writes) as session,
            ):
                await session.initialize()
                self.session = session
                self.started.set_result(await _listed(session))
                await self.end.wait()
        except BaseException as error:
            if self.started.done():
                return
            self.started.set_exception(BackendError(f"it did not start: {_root(error)}"))
        finally:
            self.session = None

    def last_words(self) -> str:
        """Return the last line that it wrote to its standard error."""
        with suppress(OSError, ValueError):
            self.errors.seek(0)
            lines = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
            return lines[-1][:200] if lines else ""
        return ""


class ToolServers:
    """Servers that were started, and their tools. Use it in a ``with`` block, or ``close`` it.

    ``notice`` gets a line for each server that did not start; the others are used. Raises UnsupportedError
    where the package ``mcp`` is missing.
    """

    def __init__(self, commands: Sequence[ServerCommand], notice: Callable[[str], object]) -> None:
        try:
            import mcp  # noqa: F401
        except ImportError as error:
            hint = pip_install("mcp")
            raise UnsupportedError("tools of servers need the package mcp", hint=hint) from error
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="tool servers", daemon=True)
        self._thread.start()
        self._servers: dict[str, _Server] = {}
        self._running: list[Future[None]] = []
        self.tools: list[McpTool] = []
        try:
            self._start(commands, notice)
        except BaseException:
            self.close()
            raise

    def named(self, name: str) -> McpTool | None:
        """Return the tool that a model calls so."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def call(self, tool: McpTool, arguments: dict[str, Any]) -> CallOutcome:
        """Call a tool and wait for its result. A fault is an outcome too; KeyboardInterrupt is raised."""
        server = self._servers[tool.server.name]
        if server.session is None:
            return CallOutcome(f"the server {tool.server.name} has ended", failed=True)
        waiting = self._submit(server.session.call_tool(tool.own, arguments))
        try:
            result = waiting.result(tool.server.call_s)
        except KeyboardInterrupt:
            waiting.cancel()
            raise
        except Late:
            waiting.cancel()
            return CallOutcome(f"{tool.name} took longer than {tool.server.call_s:g} s", failed=True)
        except (Exception, CancelledError) as error:
            return CallOutcome(f"{tool.name} failed: {_root(error)}", failed=True)
        return CallOutcome(result_text(result), failed=bool(result.is_error))

    def close(self) -> None:
        """End all servers."""
        for server in self._servers.values():
            self._loop.call_soon_threadsafe(server.end.set)
        for one in self._running:
            with suppress(Exception, CancelledError):
                one.result(_END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        if not self._thread.is_alive():
            self._loop.close()
        for server in self._servers.values():
            server.errors.close()

    def __enter__(self) -> ToolServers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, commands: Sequence[ServerCommand], notice: Callable[[str], object]) -> None:
        for command in commands:
            errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
            server = self._servers[command.name] = _Server(command, errors)
            self._running.append(self._submit(server.run()))
        found: list[tuple[ServerCommand, Any]] = []
        for server in self._servers.values():
            try:
                found += [(server.command, tool) for tool in server.started.result(_START_S)]
            except (BackendError, Late) as error:
                why = server.last_words() or str(error) or f"it did not start within {_START_S:g} s"
                notice(f"the server {server.command.name} is left out: {why}")
        self.tools = named_apart(found)

    def _submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


async def _listed(session: ClientSession) -> list[Any]:
    """Return all tools of a server, page by page."""
    from mcp.types import PaginatedRequestParams

    page = await session.list_tools()
    tools = [*page.tools]
    while page.next_cursor and len(tools) < _MOST_TOOLS:
        page = await session.list_tools(params=PaginatedRequestParams(cursor=page.next_cursor))
        tools += page.tools
    return tools[:_MOST_TOOLS]


def _root(error: BaseException) -> str:
    """Return one line about the first cause of an error, which task groups wrap."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
