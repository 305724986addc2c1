"""A response: named events of a stream, or one object.

The text of a reply becomes items: reasoning, messages. An item is open while text goes into it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any

from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.logprobs import content_logprobs
from edgedec.server.wire.parts import ReadText, SampleReader
from edgedec.server.wire.reply_form import Frame
from edgedec.server.wire.response_request import ResponseBody
from edgedec.server.wire.usage import MemoryUse, usage_json
from edgedec.server.work.request import Event, Piece, Usage

_PARTS = {"message": ("output_text", "msg"), "reasoning": ("reasoning_text", "rs")}
"""Kinds of items: the type of their part, and how their ids begin."""


class ResponseReply:
    """The response to a body, of the model ``model``."""

    done_mark = False

    def __init__(self, body: ResponseBody, model: str) -> None:
        self._asked, self._model = body, model
        self._id = f"resp_{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._reader = SampleReader()
        self._items: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._texts: list[str] = []
        self._sent = 0
        self._thought = 0
        self._reason: str | None = None
        self._usage = Usage()

    def opening(self) -> Iterator[Frame]:
        """Yield the response without any output."""
        yield self._frame("response.created", response=self._whole("in_progress"))
        yield self._frame("response.in_progress", response=self._whole("in_progress"))

    def event(self, event: Event) -> Iterator[Frame]:
        """Yield the frames of an event."""
        if isinstance(event, Piece):
            yield from self._read(self._reader.push(event.text, event.tokens))
            return
        yield from self._read(self._reader.flush())
        if not any(one["type"] == "message" for one in [*self._items, self._open or {"type": ""}]):
            yield from self._begin("message")
        self._reason, self._usage = event.reason, event.usage
        yield from self._finish("completed" if event.reason == "stop" else "incomplete")

    def closing(self, memory: MemoryUse) -> Iterator[Frame]:
        """Yield the whole response."""
        whole = self.whole(memory)
        yield self._frame(f"response.{whole['status']}", response=whole)

    def failing(self, error: ApiError) -> Iterable[Frame]:
        """Return the response that failed."""
        whole = self._whole("failed")
        whole["error"] = {"code": error.code or "server_error", "message": error.message}
        return [self._frame("response.failed", response=whole)]

    def whole(self, memory: MemoryUse) -> Any:
        """Return the response."""
        whole = self._whole("completed" if self._reason == "stop" else "incomplete")
        usage = usage_json(self._usage, memory, self._thought, read="input", written="output")
        return whole | {"usage": usage}

    def _read(self, reading: ReadText) -> Iterator[Frame]:
        self._thought += reading.thought_tokens
        if reading.reasoning:
            yield from self._add("reasoning", reading.reasoning, [])
        if reading.content:
            logprobs = self._logprobs(reading) if self._asked.wants_logprobs else []
            yield from self._add("message", reading.content, logprobs)

    def _logprobs(self, reading: ReadText) -> list[Any]:
        return content_logprobs(reading.tokens, self._asked.top_logprobs or 0)

    def _add(self, kind: str, text: str, logprobs: list[Any]) -> Iterator[Frame]:
        if self._open is None or self._open["type"] != kind:
            yield from self._finish("completed")
            yield from self._begin(kind)
        assert self._open is not None
        self._texts.append(text)
        more = {}
        if kind == "message":
            self._open["content"][0]["logprobs"] += logprobs
            more = {"logprobs": logprobs}
        yield self._at(f"response.{_PARTS[kind][0]}.delta", delta=text, **more)

    def _begin(self, kind: str) -> Iterator[Frame]:
        part, prefix = _PARTS[kind]
        more: dict[str, Any] = {"role": "assistant"} if kind == "message" else {"summary": []}
        item = {"id": f"{prefix}_{secrets.token_hex(12)}", "type": kind, "status": "in_progress", **more}
        self._open, self._texts = {**item, "content": [_part(part, "")]}, []
        number = len(self._items)
        yield self._frame("response.output_item.added", output_index=number, item={**item, "content": []})
        yield self._at("response.content_part.added", part=_part(part, ""))

    def _finish(self, status: str) -> Iterator[Frame]:
        if (item := self._open) is None:
            return
        part, text = item["content"][0], "".join(self._texts)
        part["text"], item["status"] = text, status
        more = {"logprobs": part["logprobs"]} if part["type"] == "output_text" else {}
        yield self._at(f"response.{part['type']}.done", text=text, **more)
        yield self._at("response.content_part.done", part=part)
        yield self._frame("response.output_item.done", output_index=len(self._items), item=item)
        self._items.append(item)
        self._open = None

    def _at(self, name: str, **fields: Any) -> Frame:
        assert self._open is not None
        place = {"item_id": self._open["id"], "output_index": len(self._items), "content_index": 0}
        return self._frame(name, **place, **fields)

    def _frame(self, name: str, **fields: Any) -> Frame:
        number, self._sent = self._sent, self._sent + 1
        return Frame({"type": name, "sequence_number": number, **fields}, name)

    def _whole(self, status: str) -> dict[str, Any]:
        cut = status == "incomplete"
        named = self._asked.others
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": self._asked.instructions,
            "max_output_tokens": self._asked.max_output_tokens,
            "metadata": named.get("metadata", {}),
            "model": self._model,
            "output": list(self._items),
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": named.get("temperature"),
            "text": {"format": self._asked.text.format or {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": named.get("top_p"),
            "truncation": "disabled",
            "usage": None,
            **({"edgedec": {"finish_reason": self._reason}} if self._reason else {}),
        }


def _part(kind: str, text: str) -> dict[str, Any]:
    more: dict[str, Any] = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    return {"type": kind, "text": text, **more}
