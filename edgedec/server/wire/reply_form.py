"""The seam between events and an endpoint's form of a reply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.usage import MemoryUse
from edgedec.server.work.request import Event


class Frame(NamedTuple):
    """One event of a stream: its data, and its name where the form has names."""

    data: Any
    name: str | None = None


class ReplyForm(Protocol):
    """A reply as an endpoint answers with it: frame by frame, or whole."""

    done_mark: bool
    """Whether a stream ends with ``[DONE]``."""

    def opening(self) -> Iterable[Frame]:
        """Return the frames before the first event."""
        ...

    def event(self, event: Event) -> Iterable[Frame]:
        """Take an event; return the frames that it makes."""
        ...

    def closing(self, memory: MemoryUse) -> Iterable[Frame]:
        """Return the frames after the last event."""
        ...

    def failing(self, error: ApiError) -> Iterable[Frame]:
        """Return the frames of an error within a stream."""
        ...

    def whole(self, memory: MemoryUse) -> Any:
        """Return the reply in one piece, after the last event."""
        ...


FINISH = {"stop": "stop", "length": "length", "context": "length", "loop": "length", "interrupted": "length"}
"""OpenAI's word for the end of a reply."""
