"""The record of one request: for its line in the log, and for the metrics."""

from __future__ import annotations

import secrets
import time
from collections.abc import MutableMapping
from dataclasses import field
from typing import Any, cast

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.work.request import Usage

_STATE = "edgedec.exchange"


@dataclass(slots=True)
class Exchange:
    """A request and its answer so far; no text of either."""

    method: str
    path: str
    id: str = field(default_factory=lambda: f"req_{secrets.token_hex(12)}")
    started: float = field(default_factory=time.perf_counter)
    status: int = 0
    route: str = "other"
    """Name of the endpoint; "other" for none."""
    model: str | None = None
    first_token_s: float | None = None
    usage: Usage | None = None
    reasons: list[str] = field(default_factory=list)
    gone: bool = False
    """Whether the client went away before the end."""
    cause: str = ""

    @property
    def elapsed_s(self) -> float:
        """Time since the request began."""
        return time.perf_counter() - self.started

    def first_token(self) -> None:
        """Note that the first text is there."""
        if self.first_token_s is None:
            self.first_token_s = self.elapsed_s


def keep(scope: MutableMapping[str, Any], exchange: Exchange) -> None:
    """Put a record into the scope of its request."""
    scope[_STATE] = exchange


def exchange_of(scope: MutableMapping[str, Any]) -> Exchange:
    """Return the record of a request."""
    return cast(Exchange, scope[_STATE])
