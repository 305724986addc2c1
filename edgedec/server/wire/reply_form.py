"""The seam between events and an endpoint's form of a reply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from pydantic_core import to_json

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.usage import MemoryUse
from edgedec.server.work.request import Event


class Frame(NamedTuple):
    """One event of a stream: its data, and its name where the form has names."""

    data: Any
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Framing:
    """The bytes of a stream: server-sent events, or with ``lines`` a line of JSON for each frame.

    ``waiting`` is sent in a stretch of silence, ``last`` at the end.
    """

    waiting: bytes = b": waiting\n\n"
    last: bytes = b""
    lines: bool = False

    @property
    def media_type(self) -> str:
        """The type of the answer."""
        return "application/x-ndjson" if self.lines else "text/event-stream; charset=utf-8"

    def encoded(self, frames: Iterable[Frame]) -> bytes:
        """Return frames as bytes."""
        return b"".join(self._frame(one) for one in frames)

    def _frame(self, frame: Frame) -> bytes:
        data = to_json(frame.data, inf_nan_mode="null")
        if self.lines:
            return data + b"\n"
        name = f"event: {frame.name}\n".encode() if frame.name else b""
        return name + b"data: " + data + b"\n\n"


EVENTS = Framing()
OPENAI_EVENTS = Framing(last=b"data: [DONE]\n\n")
MESSAGE_EVENTS = Framing(waiting=b'event: ping\ndata: {"type": "ping"}\n\n')
LINES = Framing(waiting=b"", lines=True)


class ReplyForm(Protocol):
    """A reply as an endpoint answers with it: frame by frame, or whole."""

    framing: Framing

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
