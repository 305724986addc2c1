"""The parts that chat and text completions share: fields of their bodies, chunks of their replies."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from pydantic import Field

from edgedec.server.wire.body import RequestBody, StreamOptions
from edgedec.server.wire.errors import ApiError, invalid
from edgedec.server.wire.reply_form import FINISH, OPENAI_EVENTS, Frame
from edgedec.server.wire.sampling import NAMES
from edgedec.server.wire.usage import MemoryUse
from edgedec.server.work.request import MOST_SAMPLES


class ChoicesBody(RequestBody):
    """The fields of bodies that ask for choices."""

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = Field(default=1, ge=1, le=MOST_SAMPLES)
    stop: Any = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a chunk of figures."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def check_others(self) -> None:
        """Raise ApiError for an unknown field, and for options of a stream without one."""
        self.refuse_others(NAMES)
        if self.stream_options and not self.stream:
            raise invalid("stream_options needs stream", "stream_options")


B = TypeVar("B", bound=ChoicesBody)


class ChoicesReply(ABC, Generic[B]):
    """Choices under one head, chunk by chunk or in one object. ``kind`` names the chunks."""

    framing = OPENAI_EVENTS

    def __init__(self, body: B, model: str, *, prefix: str, kind: str) -> None:
        self._asked = body
        self._head = {
            "id": f"{prefix}-{secrets.token_hex(12)}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": None,
        }

    def closing(self, memory: MemoryUse) -> Iterator[Frame]:
        """Yield the chunk of figures, where it is asked for."""
        if self._asked.include_usage:
            yield Frame({**self._head, "choices": [], "usage": self._usage(memory)})

    def failing(self, error: ApiError) -> Iterable[Frame]:
        """Return an error as a chunk."""
        return [Frame(error.as_json())]

    @abstractmethod
    def _usage(self, memory: MemoryUse) -> Any:
        """Return the figures of all choices."""

    def _chunk(self, choice: dict[str, Any]) -> Frame:
        usage = {"usage": None} if self._asked.include_usage else {}
        return Frame({**self._head, "choices": [choice], **usage})


def finish_of(reason: str | None) -> tuple[str | None, dict[str, Any]]:
    """Return OpenAI's word for the end of a reply, and our own field where it says less."""
    finish = None if reason is None else FINISH[reason]
    return finish, {} if reason in (None, finish) else {"edgedec": {"finish_reason": reason}}
