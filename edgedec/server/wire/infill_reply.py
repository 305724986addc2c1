"""The text of a gap, as llama.cpp's server has it: pieces of a stream, or one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.reply_form import EVENTS, Frame
from edgedec.server.wire.texts import InfillBody
from edgedec.server.wire.usage import MemoryUse
from edgedec.server.work.request import Event, Piece, Usage

_MS = 1000


class InfillReply:
    """The reply to a body, of the model ``model``."""

    framing = EVENTS

    def __init__(self, body: InfillBody, model: str) -> None:
        self._asked, self._model = body, model
        self._texts: list[str] = []
        self._reason, self._stop = "stop", ""
        self._usage = Usage()

    def opening(self) -> Iterable[Frame]:
        """Return nothing."""
        return ()

    def event(self, event: Event) -> Iterator[Frame]:
        """Yield the piece of an event."""
        if not isinstance(event, Piece):
            self._reason, self._stop, self._usage = event.reason, event.stop or "", event.usage
        elif event.text and not self._asked.reads_only:
            self._texts.append(event.text)
            yield Frame({"content": event.text, "stop": False})

    def closing(self, memory: MemoryUse) -> Iterator[Frame]:
        """Yield the end, with the figures."""
        yield Frame(self._end(""))

    def failing(self, error: ApiError) -> Iterable[Frame]:
        """Return an error as a piece."""
        return [Frame(error.as_json())]

    def whole(self, memory: MemoryUse) -> Any:
        """Return the reply."""
        return self._end("".join(self._texts))

    def _end(self, content: str) -> dict[str, Any]:
        usage, limited = self._usage, self._reason != "stop"
        return {
            "content": content,
            "stop": True,
            "model": self._model,
            "stop_type": "limit" if limited else "word" if self._stop else "eos",
            "stopping_word": self._stop,
            "tokens_cached": usage.cached_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "tokens_predicted": 0 if self._asked.reads_only else usage.completion_tokens,
            "truncated": False,
            "timings": {
                "prompt_n": usage.prompt_tokens - usage.cached_tokens,
                "prompt_ms": usage.prefill_s * _MS,
                "predicted_n": usage.completion_tokens,
                "predicted_ms": usage.decode_s * _MS,
            },
        }
