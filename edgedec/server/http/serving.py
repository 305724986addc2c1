"""Serve an application on a socket until a signal, and end within the time that was given."""

from __future__ import annotations

import socket
import threading
from asyncio import to_thread
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgedec.server.http.app import application
from edgedec.server.http.connections import connection_class
from edgedec.server.http.ending import EndingServer
from edgedec.server.http.log import Log
from edgedec.system.allocator import release_freed, share_heaps

if TYPE_CHECKING:
    from edgedec.mcp.servers import ToolServers
    from edgedec.server.http.settings import ServerSettings
    from edgedec.server.work.hub import Hub

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


class HttpServer(EndingServer):
    """A server that ends with the hub of models. Its page may use ``tools``."""

    def __init__(
        self, hub: Hub, settings: ServerSettings, log: Log | None = None, tools: ToolServers | None = None
    ) -> None:
        self._hub, self._settings = hub, settings
        self._log = log or Log()
        self._lock = threading.Lock()
        self._closing: threading.Thread | None = None
        self._answered = 0
        """Requests that had come when freed memory was last returned."""
        super().__init__(
            application(hub, settings, self._log, tools),
            http=connection_class(settings),
            loop="asyncio",
            timeout_keep_alive=settings.idle_s,
            timeout_graceful_shutdown=_GRACE_S,
        )

    def serve_on(self, listening: socket.socket, ready: Callable[[], None]) -> None:
        """Answer requests on a socket until a signal; ``ready`` is called once they are answered."""
        share_heaps(_HEAPS, _LARGEST)
        with self._log.of_libraries():
            super().serve_on(listening, ready)
        self.end()
        if self._closing:
            self._closing.join()
        self._log.close()

    def end(self) -> None:
        """Refuse requests from now on; replies finish, or are cut when their time is over.

        Until then the server goes on to say that it ends.
        """
        with self._lock:
            if self._closing is None:
                self.ending = True
                self._closing = threading.Thread(target=self._close, name="closing")
                self._closing.start()

    def _close(self) -> None:
        self._hub.close(finish_s=self._settings.finish_s)
        super().end()

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections now and then."""
        if counter % _SWEEP_TICKS == 0:
            for one in list(self.server_state.connections):
                one.sweep()  # type: ignore[union-attr]  # of connection_class
        if counter % _RELEASE_TICKS == 0 and self._answered != (requests := self.server_state.total_requests):
            self._answered = requests
            await to_thread(release_freed)
        return await super().on_tick(counter)
