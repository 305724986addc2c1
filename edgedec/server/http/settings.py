"""Settings of the server that do not concern models."""

from __future__ import annotations

import hmac
from dataclasses import field

from edgedec.core.quick_dataclass import dataclass

BODY_BYTES = 4 << 20
HEADER_BYTES = 32 << 10
HEADERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Limits on clients: the hosts and the key that they need, and how much of them the server bears."""

    key: str | None = field(default=None, repr=False)
    """Key that clients send. None: no key is asked for."""
    loopback: bool = True
    """Whether the server listens on this machine alone, so that ``Host`` must name it."""
    origins: tuple[str, ...] = ()
    """Origins of other sites whose pages may ask, as browsers state them; ``*`` for those of every site."""
    body_bytes: int = BODY_BYTES
    """Largest body of a request."""
    read_s: float = 60.0
    """Longest time to read a request."""
    header_s: float = 15.0
    """Longest time to read the headers of a request."""
    stall_s: float = 60.0
    """Longest time that bytes wait for a client to read them."""
    idle_s: float = 30.0
    """Longest time that a connection waits for its next request."""
    connections: int = 512
    """Most connections at once."""
    finish_s: float = 30.0
    """Time for replies to finish after the server was asked to end."""

    def admits(self, authorization: str) -> bool:
        """Whether a header has the key. The comparison takes the same time for every wrong one."""
        if self.key is None:
            return True
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode(), self.key.encode())
        return same and scheme.lower() == "bearer"
