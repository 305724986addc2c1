"""Calls of tools in a chat: each is shown, confirmed unless its server's file allows it, and answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.core.errors import MemoryBudgetError, UnsupportedError, UsageError
from edgedec.grammar import constraint_for

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.mcp.servers import ToolServers
    from edgedec.mcp.tool import McpTool
    from edgedec.session.chat import Chat
    from edgedec.session.message import ToolCall

MOST_ROUNDS = 20
"""Replies to results in one turn; a model may call without end."""
_SHOWN_CHARS = 300
_NO_ARGUMENTS = ("", "null")
"""Texts in place of an empty object, as some models write them."""
_STOPPED = "the user stopped this call"
_REFUSED = "the user did not allow this call"

Ask = Callable[[str], str]
"""Shows a question and returns the answer. Raises click.Abort for Ctrl-C."""


def asked_on_terminal(question: str) -> str:
    """Ask on standard error, and read a line."""
    return str(click.prompt(question, default="n", show_default=False, err=True))


class ToolCalls:
    """Answers the calls of a chat's replies.

    ``ask``: None where nobody can be asked; then only allowed tools are called.
    """

    def __init__(self, servers: ToolServers, ask: Ask | None) -> None:
        self._servers, self._ask = servers, ask
        self._always: set[str] = set()
        """Tools that the user has allowed for the rest of this chat."""

    @property
    def tools(self) -> list[dict[str, object]]:
        """All tools, in OpenAI's form."""
        return [tool.as_openai() for tool in self._servers.tools]

    def bind(self, model: Model, chat: Chat) -> None:
        """Let calls in replies keep the schemas of their tools, and say where nothing can do that."""
        bound = replace(chat.syntax, bound=True)
        try:
            form = bound.grammar("")
            if form is None:
                screen.aside("calls in the form of this model are free: arguments are checked, not bound")
                return
            model.make_room_for(chat.settings.params, grammar=True)
            constraint_for(form, chat.tokenizer, chat.engine.home.spec, chat.engine.home.ledger)
        except (UsageError, UnsupportedError, MemoryBudgetError) as error:
            screen.aside(f"calls are free, and arguments are checked, not bound: {error.message}")
            return
        chat.syntax = bound
        for one in form.left_out:
            screen.aside(f"calls do not keep to {_harmless(one)}; it is checked")

    def greet(self) -> None:
        """Say which tools there are."""
        names = [tool.name for tool in self._servers.tools]
        if names:
            screen.aside(f"{len(names)} tool{'s' if len(names) > 1 else ''}: {', '.join(names)}")

    def answer(self, chat: Chat, show_reply: Callable[[], None]) -> None:
        """Answer the calls of the last reply, and of those that ``show_reply`` shows next."""
        for _ in range(MOST_ROUNDS):
            if chat.last is None or not chat.last.tool_calls or chat.last.cut:
                return
            if not self._all(chat, chat.last.tool_calls):
                return
            show_reply()
        screen.aside(f"{MOST_ROUNDS} rounds of calls are enough for one turn; /more or a message goes on")

    def _all(self, chat: Chat, calls: tuple[ToolCall, ...]) -> bool:
        """Answer all calls of a reply; return whether the model is to go on. Ctrl-C stops the rest."""
        stopped = False
        for call in calls:
            text = _STOPPED
            if not stopped:
                try:
                    text = self._one(call)
                except (KeyboardInterrupt, click.Abort):
                    stopped = True
                    screen.aside("stopped; the model hears that at the next message")
            chat.tool_result(call, text)
        return not stopped

    def _one(self, call: ToolCall) -> str:
        """Return the result of a call, or the reason why there is none, as the model reads it."""
        tool = self._servers.named(call.name)
        if tool is None:
            screen.aside(f"calls {_harmless(call.name)}, which is no tool")
            return f"there is no tool {call.name}"
        try:
            arguments = {} if call.arguments.strip() in _NO_ARGUMENTS else call.values()
            tool.check(arguments)
        except UsageError as error:
            screen.aside(f"calls {tool.name} with wrong arguments: {_harmless(error.message)}")
            return f"wrong arguments: {error.message}"
        screen.aside(f"calls {tool.name} of {tool.server.name}: {_arguments(arguments)}")
        if not self._may(tool):
            screen.aside("not called")
            return _REFUSED
        outcome = self._servers.call(tool, arguments)
        if outcome.failed:
            screen.aside(f"{tool.name}: {_harmless(outcome.text)}")
        return outcome.text or "done"

    def _may(self, tool: McpTool) -> bool:
        if tool.allowed or tool.name in self._always:
            return True
        if self._ask is None:
            screen.aside(f'nobody can be asked here; "allow": ["{tool.own}"] in the file allows it')
            return False
        answer = self._ask("call it? y, n, or a for always").strip().lower()
        if answer in ("a", "always"):
            self._always.add(tool.name)
        return answer in ("y", "yes", "a", "always")


def start_servers(path: Path) -> ToolServers:
    """Start the servers that a file names.

    Raises NotFoundError, BadFileError, UnsupportedError, and UsageError where there is no tool.
    """
    from edgedec.mcp.config import read_servers
    from edgedec.mcp.servers import ToolServers

    commands = read_servers(path)
    screen.dim(f"starting {', '.join(one.name for one in commands)}")
    servers = ToolServers(commands, screen.aside)
    if not servers.tools:
        servers.close()
        raise UsageError(f"no server of {path} has a tool", hint="start its commands alone to see why")
    return servers


def _arguments(values: dict[str, object]) -> str:
    return _harmless(", ".join(f"{key}={json.dumps(one, ensure_ascii=False)}" for key, one in values.items()))


def _harmless(text: str) -> str:
    """Return the beginning of a text in one line, without what a terminal would obey."""
    line = " ".join(screen.harmless(text).split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}…"
