"""A response: named events of a stream, or one object."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any

from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.logprobs import content_logprobs
from edgedec.server.wire.parts import BeginReading, ReadText, SampleReader
from edgedec.server.wire.reply_form import EVENTS, Frame
from edgedec.server.wire.response_output import News, OutputItems
from edgedec.server.wire.response_request import ResponseBody
from edgedec.server.wire.tools import callable_tools
from edgedec.server.wire.usage import MemoryUse, usage_json
from edgedec.server.work.request import Event, Piece, Usage


class ResponseReply:
    """The response to a body, of the model ``model``."""

    framing = EVENTS

    def __init__(self, body: ResponseBody, model: str, begin: BeginReading) -> None:
        self._asked, self._model = body, model
        self._id = f"resp_{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._reader = SampleReader(begin, several=body.parallel_tool_calls)
        self._items = OutputItems()
        self._sent = 0
        self._thought = 0
        self._reason: str | None = None
        self._usage = Usage()

    def opening(self) -> Iterator[Frame]:
        """Yield the response without any output."""
        yield self._frame("created", response=self._whole("in_progress"))
        yield self._frame("in_progress", response=self._whole("in_progress"))

    def event(self, event: Event) -> Iterator[Frame]:
        """Yield the frames of an event."""
        for name, fields in self._news(event):
            yield self._frame(name, **fields)

    def closing(self, memory: MemoryUse) -> Iterator[Frame]:
        """Yield the whole response."""
        whole = self.whole(memory)
        yield self._frame(whole["status"], response=whole)

    def failing(self, error: ApiError) -> Iterable[Frame]:
        """Return the response that failed."""
        whole = self._whole("failed")
        whole["error"] = {"code": error.code or "server_error", "message": error.message}
        return [self._frame("failed", response=whole)]

    def whole(self, memory: MemoryUse) -> Any:
        """Return the response."""
        usage = usage_json(self._usage, memory, self._thought, read="input", written="output")
        return self._whole(self._status) | {"usage": usage}

    @property
    def _status(self) -> str:
        return "completed" if self._reason == "stop" else "incomplete"

    def _news(self, event: Event) -> Iterator[News]:
        if isinstance(event, Piece):
            yield from self._read(self._reader.push(event.text, event.tokens))
            return
        self._reason, self._usage = event.reason, event.usage
        yield from self._read(self._reader.flush())
        if not self._items.any_answer:
            yield from self._items.begin("message")
        yield from self._items.close(self._status)

    def _read(self, reading: ReadText) -> Iterator[News]:
        parts = reading.parts
        self._thought += reading.thought_tokens
        if parts.reasoning:
            yield from self._items.text("reasoning", parts.reasoning, [])
        if parts.content:
            most = self._asked.top_logprobs or 0
            logprobs = content_logprobs(reading.tokens, most) if self._asked.wants_logprobs else []
            yield from self._items.text("message", parts.content, logprobs)
        for delta in parts.calls:
            yield from self._items.call(delta)

    def _frame(self, name: str, /, **fields: Any) -> Frame:
        number, self._sent = self._sent, self._sent + 1
        name = f"response.{name}"
        return Frame({"type": name, "sequence_number": number, **fields}, name)

    def _whole(self, status: str) -> dict[str, Any]:
        cut = status == "incomplete"
        asked, named = self._asked, self._asked.others
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": named.get("metadata", {}),
            "model": self._model,
            "output": list(self._items.closed),
            "parallel_tool_calls": asked.parallel_tool_calls,
            "previous_response_id": None,
            "store": False,
            "temperature": named.get("temperature"),
            "text": {"format": asked.text.format or {"type": "text"}},
            "tool_choice": asked.tool_choice or "auto",
            "tools": callable_tools(asked.tools),
            "top_p": named.get("top_p"),
            "truncation": "disabled",
            "usage": None,
            **({"edgedec": {"finish_reason": self._reason}} if self._reason else {}),
        }
