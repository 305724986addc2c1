"""The file that names tool servers, in the form of other programs: ``{"mcpServers": {NAME: {...}}}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass

MOST_BYTES = 1_000_000
_FORM = 'as in {"mcpServers": {"files": {"command": "npx", "args": ["-y", "a-server"]}}}'
_CALL_S = 60.0
_LONGEST_S = 3600.0


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """A server by its name: the command that starts it, with its variables.

    ``allowed``: tools that are called without a question; "*": all. ``call_s``: seconds that a call may take.
    """

    name: str
    command: str
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    allowed: frozenset[str] = frozenset()
    call_s: float = _CALL_S

    def allows(self, tool: str) -> bool:
        """Return whether a tool is called without a question."""
        return tool in self.allowed or "*" in self.allowed


def read_servers(path: Path) -> list[ServerCommand]:
    """Read the servers of a file. Raises NotFoundError, BadFileError, UnsupportedError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}", hint="name a JSON file") from error
    try:
        if len(data) > MOST_BYTES:
            raise ValueError("it is too long")
        read = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{path} is no JSON file: {str(error)[:80]}", hint=_FORM) from error
    servers = read.get("mcpServers") if isinstance(read, dict) else None
    if not isinstance(servers, dict) or not servers:
        raise BadFileError(f"{path} names no servers", hint=_FORM)
    return [_server(path, str(name), one) for name, one in servers.items()]


def _server(path: Path, name: str, stated: Any) -> ServerCommand:
    where = f"server {name[:40]!r} of {path}"
    if not isinstance(stated, dict):
        raise BadFileError(f"{where} is no object", hint=_FORM)
    if "url" in stated and "command" not in stated:
        raise UnsupportedError(f"{where} is elsewhere, and only local servers are used", hint=_FORM)
    command, arguments = stated.get("command"), stated.get("args", [])
    variables, allowed = stated.get("env", {}), stated.get("allow", [])
    seconds = stated.get("timeout", _CALL_S)
    if not isinstance(command, str) or not command.strip():
        raise BadFileError(f"{where} has no command", hint=_FORM)
    if not _texts(arguments) or not _texts(allowed):
        raise BadFileError(f"args and allow of {where} are lists of texts", hint=_FORM)
    if not isinstance(variables, dict) or not _texts([*variables.values()]):
        raise BadFileError(f"env of {where} has texts by name", hint=_FORM)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_S:
        raise BadFileError(f"timeout of {where} is no number of seconds up to {_LONGEST_S:g}", hint=_FORM)
    return ServerCommand(
        name, command, tuple(arguments), {str(key): one for key, one in variables.items()},
        frozenset(allowed), float(seconds),
    )  # fmt: skip


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(one, str) for one in values)
