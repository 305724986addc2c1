"""A tool server for tests, which runs as a program: ``python tool_server.py``."""

from __future__ import annotations

import os
import sys
import time

from mcp.server.mcpserver import MCPServer

server = MCPServer("test")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def long_text(count: int) -> str:
    """Return a text of so many characters."""
    return "x" * count


@server.tool()
def fail() -> str:
    """Fail always."""
    raise ValueError("the disk is on fire")


@server.tool()
def sleep(seconds: float) -> str:
    """Take some time."""
    time.sleep(seconds)
    return "slept"


@server.tool()
def variable(name: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(name, "none")


@server.tool()
def process() -> str:
    """Return the number of this process."""
    return str(os.getpid())


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


if __name__ == "__main__":
    if "broken" in sys.argv:
        raise SystemExit("no licence was found")
    server.run()
