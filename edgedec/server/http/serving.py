"""Serve an application on a socket until a signal, and end within the time that was given."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from asyncio import to_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, cast

import uvicorn

from edgedec.core.errors import UsageError
from edgedec.memory.release import release_freed, share_heaps
from edgedec.server.http.app import application
from edgedec.server.http.connections import connection_class
from edgedec.server.http.log import Log

if TYPE_CHECKING:
    from edgedec.server.http.settings import ServerSettings
    from edgedec.server.work.hub import Hub

_BACKLOG = 128
_GRACE_S = 5.0
"""Time for cut replies to reach their clients."""
_SWEEP_TICKS = 10
"""Ticks of a tenth of a second between two looks at the connections."""
_RELEASE_TICKS = 50
"""Ticks between two returns of freed memory: requests of a megabyte and patterns leave some behind."""
_HEAPS = 2
"""Heaps of the process: more threads than that hardly ever allocate at once."""
_LARGEST = 1 << 20
"""Bytes from which a block goes back to the system as soon as it is freed: those of a long request."""


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
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
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


class HttpServer(uvicorn.Server):
    """Uvicorn's server, which ends with the hub of models and returns after a signal."""

    def __init__(self, hub: Hub, settings: ServerSettings, log: Log | None = None) -> None:
        self._hub, self._settings = hub, settings
        self._log = log or Log()
        self._ending = threading.Lock()
        self._closing: threading.Thread | None = None
        self._answered = 0
        """Requests that had come when freed memory was last returned."""
        super().__init__(
            uvicorn.Config(
                application(hub, settings, self._log),
                http=connection_class(settings),
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_keep_alive=cast(int, settings.idle_s),
                timeout_graceful_shutdown=cast(int, settings.finish_s + _GRACE_S),
            )
        )

    def serve_on(self, listening: socket.socket, ready: Callable[[], None]) -> None:
        """Answer requests on a socket until a signal; ``ready`` is called once they are answered."""
        self._ready: Callable[[], None] | None = ready
        share_heaps(_HEAPS, _LARGEST)
        with self._log.of_libraries():
            self.run(sockets=[listening])
        self.end()
        if self._closing:
            self._closing.join()
        self._log.close()

    def end(self) -> None:
        """Stop taking requests; replies finish, or are cut when their time is over."""
        self.should_exit = True
        with self._ending:
            if self._closing is None:
                how = {"finish_s": self._settings.finish_s}
                self._closing = threading.Thread(target=self._hub.close, kwargs=how, name="closing")
                self._closing.start()

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections now and then."""
        if self._ready:
            self._ready()
            self._ready = None
        if counter % _SWEEP_TICKS == 0:
            for one in list(self.server_state.connections):
                one.sweep()  # type: ignore[union-attr]  # of connection_class
        if counter % _RELEASE_TICKS == 0 and self._answered != (requests := self.server_state.total_requests):
            self._answered = requests
            await to_thread(release_freed)
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Inside, the first signal ends the server, and the second one the process."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the server; at once where it is ending already."""
        if self.should_exit:
            os._exit(128 + sig)
        self.end()
