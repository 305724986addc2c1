"""Whether a server can be reached at all: a connection and no byte more."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from edgedec.core.errors import SideLost
from edgedec.remote.address import ServerAddress

_PORTS = {"http": 80, "https": 443}


def check_reachable(address: ServerAddress, within_s: float) -> None:
    """Raise SideLost if no connection to the server is made ``within_s`` seconds. Nothing is sent.

    A server behind a proxy is not tried: only a request would tell.
    """
    parts = urlsplit(address.root)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    if not address.local and parts.scheme in getproxies() and not proxy_bypass(host):
        return
    failed: list[str] = []

    def connect() -> None:
        try:
            socket.create_connection((host, port), within_s).close()
        except (OSError, UnicodeError) as error:
            failed.append(getattr(error, "strerror", None) or str(error))
        else:
            failed.append("")

    # In a thread, because a name server may be silent for longer.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(within_s)
    why = failed[0] if failed else f"no connection in {within_s:g} s"
    if why:
        raise SideLost(
            f"no server answers at {host}, port {port} ({why})", hint="start it first, or check the address"
        )
