"""The body of a message in Anthropic's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from edgedec.server.wire.anthropic.blocks import turns_of
from edgedec.server.wire.body import BodyPart, MaxTokens, Refusal, RequestBody, path_of, short
from edgedec.server.wire.errors import invalid
from edgedec.server.wire.formats import grammar_of
from edgedec.server.wire.limits import stops_of
from edgedec.server.wire.sampling import NAMES, sampling_of
from edgedec.server.wire.tools import Tools, choice_of, tools_of
from edgedec.server.work.request import GenerationRequest

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_BUDGETS = ((4_096, "low"), (16_384, "medium"))
"""Effort of a thinking budget below so many tokens; above all of them it is high."""


class Thinking(BodyPart):
    """Whether a reply thinks first, and how much at most; a budget is an effort, too."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: int | None = Field(default=None, ge=1)
    display: Literal["summarized", "omitted"] | None = None


class OutputConfig(BodyPart):
    """How much a reply thinks, and its form."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: Any = None
    task_budget: Any = None


class ToolChoice(BodyPart):
    """The choice among tools."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class MessageBody(RequestBody):
    """The body of ``POST /v1/messages``, and of the count of its tokens."""

    messages: list[Any]
    model: str | None = None
    max_tokens: MaxTokens = None
    system: Any = None
    stop_sequences: list[str] | None = None
    stream: bool = False
    thinking: Thinking | None = None
    output_config: OutputConfig = OutputConfig()
    output_format: Any = None
    tools: list[Any] | None = None
    tool_choice: ToolChoice | None = None

    harmless: ClassVar = RequestBody.harmless | {
        "betas", "cache_control", "context_management", "diagnostics", "inference_geo", "speed",
        "user_profile_id", "workspace_id",
    }  # fmt: skip
    refused: ClassVar = {
        "container": Refusal("nothing is run here"),
        "mcp_servers": Refusal("the client calls tools", []),
    }

    @property
    def several(self) -> bool:
        """Whether a reply may have more than one call."""
        return not (self.tool_choice and self.tool_choice.disable_parallel_tool_use)

    @property
    def hides_thinking(self) -> bool:
        """Whether the text of the thinking part is left out."""
        return bool(self.thinking and self.thinking.display == "omitted")

    def request(self) -> GenerationRequest:
        """Return the request that the body makes. Raises ApiError, or UsageError for values that clash."""
        self.refuse_others(NAMES)
        tools = _tools(self.tools)
        messages = turns_of(self.messages, self.system)
        return GenerationRequest(
            model=self.model,
            messages=messages,
            tools=tools,
            tool_choice=self._choice(tools),
            reasoning_effort=self._effort(),
            think_tokens=self.thinking.budget_tokens if self.thinking else None,
            continues=messages[-1].role == "assistant",
            sampling=sampling_of(self.others),
            max_tokens=self.max_tokens,
            stop=stops_of(self.stop_sequences, "stop_sequences"),
            grammar=grammar_of(self.output_config.format or self.output_format, "output_config.format"),
        )

    def _choice(self, tools: Tools) -> str:
        given = self.tool_choice
        if given is None:
            return "auto"
        if given.type == "tool":
            return choice_of({"type": "function", "function": {"name": given.name}}, tools)
        return choice_of(_CHOICES[given.type], tools)

    def _effort(self) -> str | None:
        """Return how much a reply thinks; None leaves it to the model."""
        stated = "xhigh" if self.output_config.effort == "max" else self.output_config.effort
        if self.thinking is None:
            return stated
        if self.thinking.type == "disabled":
            return "none"
        budget = self.thinking.budget_tokens
        if stated or budget is None:
            return stated or "medium"
        return next((effort for most, effort in _BUDGETS if budget < most), "high")


def _tools(given: list[Any] | None) -> Tools:
    """Return the tools that a client calls itself, in OpenAI's form. Raises ApiError for others."""
    found = []
    for at, tool in enumerate(given or ()):
        where = path_of([at], "tools")
        kind = tool.get("type") or "custom" if isinstance(tool, Mapping) else tool
        if kind != "custom":
            words = f"{where} is {short(kind)}; tools have a name and an input_schema"
            raise invalid(words, where, "unsupported_parameter")
        function = {
            "name": tool.get("name"),
            "description": tool.get("description") or "",
            "parameters": tool.get("input_schema") or {"type": "object", "properties": {}},
            **({"strict": True} if tool.get("strict") else {}),
        }
        found.append({"type": "function", "function": function})
    return tools_of(found)
