"""Time limits, and a budget of requests and bytes for one conversation."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass

from edgedec.core.errors import SideLost, UsageError
from edgedec.core.units import size


@dataclass(frozen=True, slots=True)
class RemoteLimits:
    """Limits of one request (times, attempts) and of one conversation (requests, bytes).

    - ``connect_s``: until there is a connection.
    - ``read_s``: until the next piece of text.
    - ``total_s``: until the last piece, all attempts and pauses included.
    - ``attempts``: tries before the first byte of an answer; after it nothing is tried again.
    - ``requests``: attempts count, each as one.
    - ``sent_bytes``, ``received_bytes``: bodies, without headers.

    Raises UsageError for a limit that is not positive.
    """

    connect_s: float = 5.0
    read_s: float = 30.0
    total_s: float = 300.0
    attempts: int = 3
    requests: int = 1000
    sent_bytes: int = 50_000_000
    received_bytes: int = 50_000_000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise UsageError(f"{name} = {value} is no limit", hint="a limit is above 0")


@dataclass(frozen=True, slots=True)
class RemoteUse:
    """Requests and bytes of one conversation so far."""

    requests: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    def as_json(self) -> dict[str, int]:
        return asdict(self)


class Allowance:
    """The rest of a conversation's budget. Several threads may use it."""

    def __init__(self, limits: RemoteLimits) -> None:
        self.limits = limits
        self.use = RemoteUse()
        self._turn = threading.Lock()

    def send(self, nbytes: int) -> None:
        """Count a request before it is sent. Raises SideLost when the budget has no room for it."""
        with self._turn:
            used = RemoteUse(self.use.requests + 1, self.use.sent_bytes + nbytes, self.use.received_bytes)
            if used.requests > self.limits.requests:
                raise SideLost(f"the budget of {self.limits.requests} requests is spent")
            if used.sent_bytes > self.limits.sent_bytes:
                raise SideLost(f"the budget of {size(self.limits.sent_bytes)} to send is spent")
            self.use = used

    def receive(self, nbytes: int) -> None:
        """Count received bytes. Raises SideLost when they are more than the budget."""
        with self._turn:
            received = self.use.received_bytes + nbytes
            self.use = RemoteUse(self.use.requests, self.use.sent_bytes, received)
            if received > self.limits.received_bytes:
                raise SideLost(f"the budget of {size(self.limits.received_bytes)} to receive is spent")
