"""Sockets that listen, and uvicorn's server so that it ends by a signal and returns."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from edgedec.core.errors import UsageError
from edgedec.system.process import TERMINATIONS
from edgedec.system.sockets import claim_port

if TYPE_CHECKING:
    from starlette.types import ASGIApp

BACKLOG = 128


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises UsageError for an address that it cannot have."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"{host} is no address: {error.strerror}", hint="use 127.0.0.1") from error
    try:
        claim_port(listening)
        listening.bind(address)
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} is in use", hint="choose another port; 0 takes a free one"
            ) from error
        raise UsageError(f"cannot listen on {host} port {port}: {error}") from error
    return listening


def address_of(listening: socket.socket) -> str:
    """Return the URL of a socket."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


class EndingServer(uvicorn.Server):
    """Uvicorn's server, which says when it answers, and returns after a signal."""

    def __init__(self, application: ASGIApp, **settings: Any) -> None:
        """``settings``: those of ``uvicorn.Config`` that servers do not share."""
        settings |= {"ws": "none", "lifespan": "off", "log_config": None, "access_log": False}
        settings |= {"server_header": False, "proxy_headers": False, "backlog": BACKLOG}
        super().__init__(uvicorn.Config(application, **settings))

    ending = False
    """Whether it was asked to end."""
    _ready: Callable[[], None] | None = None

    def serve_on(self, listening: socket.socket, ready: Callable[[], None]) -> None:
        """Answer requests on a socket until a signal; ``ready`` is called once they are answered."""
        self._ready = ready
        self.run(sockets=[listening])

    def end(self) -> None:
        """Stop taking requests."""
        self.ending = self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Say once that requests are answered."""
        if self._ready:
            self._ready()
            self._ready = None
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Inside, the first signal ends the server, and the second one the process."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, *TERMINATIONS)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the server; at once where it is ending already."""
        if self.ending:
            os._exit(128 + sig)
        self.end()
