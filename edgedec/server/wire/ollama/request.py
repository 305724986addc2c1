"""Bodies of replies in Ollama's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from edgedec.grammar import GrammarSpec
from edgedec.server.wire.body import Refusal, RequestBody, path_of
from edgedec.server.wire.errors import invalid
from edgedec.server.wire.formats import grammar_of
from edgedec.server.wire.limits import MOST_TOP
from edgedec.server.wire.messages import messages_of
from edgedec.server.wire.ollama.options import options_of
from edgedec.server.wire.tools import tools_of
from edgedec.server.work.request import GenerationRequest
from edgedec.text.infill import Infill

_RENAMED = {"thinking": "reasoning", "tool_name": "name"}
_LATEST = ":latest"


def plain_name(name: str) -> str:
    """Return a name of a model without the tag that means nothing more."""
    return name.removesuffix(_LATEST)


class OllamaBody(RequestBody):
    """The fields of bodies that ask for a reply."""

    model: str = Field(min_length=1)
    stream: bool = True
    think: bool | Literal["low", "medium", "high", "max"] | None = None
    format: Any = None
    options: dict[str, Any] | None = None
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_TOP)
    keep_alive: Any = None

    harmless: ClassVar = frozenset({"shift", "truncate"})

    @property
    def closes(self) -> bool:
        """Whether the model is to be closed at once."""
        return self.keep_alive in (0, "0", "0s", "0m")

    def shared(self) -> dict[str, Any]:
        """Return the values of a request that both kinds of bodies have. Raises ApiError."""
        self.refuse_others()
        options = options_of(self.options)
        return {
            "model": plain_name(self.model),
            "reasoning_effort": self._effort(),
            "sampling": options.sampling,
            "max_tokens": options.max_tokens,
            "stop": options.stop,
            "logprobs": (self.top_logprobs or 0) if self.logprobs else None,
            "grammar": self._grammar(),
        }

    def _effort(self) -> str | None:
        if self.think is None or isinstance(self.think, str):
            return "xhigh" if self.think == "max" else self.think
        return "medium" if self.think else "none"

    def _grammar(self) -> GrammarSpec | None:
        if self.format in (None, ""):
            return None
        if self.format == "json":
            return grammar_of({"type": "json_object"}, "format")
        if not isinstance(self.format, Mapping):
            raise invalid('format should be "json" or a JSON schema', "format")
        return grammar_of({"type": "json_schema", "schema": self.format}, "format")


class OllamaChatBody(OllamaBody):
    """The body of ``POST /api/chat``."""

    messages: list[Any] = Field(default_factory=list)
    tools: list[Any] | None = None

    @property
    def asks(self) -> bool:
        """Whether there is anything to answer; else the model is opened."""
        return bool(self.messages)

    def request(self) -> GenerationRequest:
        """Return the request that the body makes. Raises ApiError, or UsageError for values that clash."""
        shared, tools = self.shared(), tools_of(self.tools)
        messages = messages_of(
            [_message(one, path_of([at], "messages")) for at, one in enumerate(self.messages)]
        )
        continues = messages[-1].role == "assistant" and not messages[-1].tool_calls
        return GenerationRequest(messages=messages, tools=tools, continues=continues, **shared)


class GenerateBody(OllamaBody):
    """The body of ``POST /api/generate``."""

    prompt: str = ""
    suffix: str | None = None
    system: str | None = None
    raw: bool = False
    images: list[Any] | None = None

    refused: ClassVar = {
        "context": Refusal("send the messages to /api/chat", []),
        "template": Refusal("the model has its own; use raw for a prompt in its form", ""),
    }

    @property
    def asks(self) -> bool:
        """Whether there is anything to answer; else the model is opened."""
        return bool(self.prompt)

    def request(self, *, chats: bool = True) -> GenerationRequest:
        """Return the request. ``chats``: whether the model has a chat template. Raises as that of a chat."""
        shared = self.shared()
        if self.images:
            raise invalid("images is not supported: models here read text alone", "images")
        if self.system and (self.suffix or self.raw or not chats):
            raise invalid("system needs a chat template; put its text into the prompt", "system")
        if self.suffix:
            return GenerationRequest(infill=Infill(self.prompt, self.suffix), **shared)
        if self.raw or not chats:
            return GenerationRequest(text=self.prompt, **shared)
        before = [{"role": "system", "content": self.system}] if self.system else []
        return GenerationRequest(
            messages=messages_of([*before, {"role": "user", "content": self.prompt}]), **shared
        )


def _message(given: Any, where: str) -> Any:
    """Return a message with the names of its fields in OpenAI's form."""
    if not isinstance(given, Mapping):
        return given
    found = {_RENAMED.get(name, name): value for name, value in given.items() if value is not None}
    if found.get("role") != "tool" and "tool_name" in given:
        raise invalid(f"{where}.tool_name belongs to messages of role tool", f"{where}.tool_name")
    return {"content": "", **found}
