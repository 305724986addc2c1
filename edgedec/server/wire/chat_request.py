"""The body of a chat completion."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from edgedec.server.wire.body import BodyPart, Effort, MaxTokens, Refusal
from edgedec.server.wire.choices import ChoicesBody
from edgedec.server.wire.errors import invalid
from edgedec.server.wire.formats import grammar_of
from edgedec.server.wire.limits import MOST_TOP, stops_of
from edgedec.server.wire.messages import messages_of
from edgedec.server.wire.sampling import sampling_of
from edgedec.server.wire.tools import choice_of, options_of, tools_of
from edgedec.server.work.request import GenerationRequest


class Extensions(BodyPart):
    """EdgeDec's own fields of a chat completion."""

    sources: bool = False
    """Whether tokens come with the drafter that proposed them."""
    continues: bool = Field(default=False, alias="continue")
    """Whether the reply goes on with the last message, an assistant's."""


class ChatBody(ChoicesBody):
    """The body of ``POST /v1/chat/completions``."""

    messages: list[Any]
    max_tokens: MaxTokens = None
    max_completion_tokens: MaxTokens = None
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_TOP)
    response_format: Any = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool = True
    reasoning_effort: Effort | None = None
    max_thinking_tokens: int | None = Field(default=None, ge=0)
    chat_template_kwargs: dict[str, Any] | None = None
    edgedec: Extensions = Extensions()

    harmless: ClassVar = ChoicesBody.harmless | {"prediction", "verbosity"}
    refused: ClassVar = {
        "audio": Refusal("replies are text"),
        "enable_thinking": Refusal("use chat_template_kwargs or reasoning_effort"),
        "function_call": Refusal("use tool_choice", "auto", "none"),
        "functions": Refusal("use tools", []),
        "modalities": Refusal("replies are text", ["text"]),
        "web_search_options": Refusal("nothing is searched"),
    }

    def request(self) -> GenerationRequest:
        """Return the request that the body makes. Raises ApiError, or UsageError for values that clash."""
        self.check_others()
        if self.top_logprobs and not self.logprobs:
            raise invalid("top_logprobs needs logprobs", "top_logprobs")
        tools = tools_of(self.tools)
        return GenerationRequest(
            model=self.model,
            messages=messages_of(self.messages),
            tools=tools,
            tool_choice=choice_of(self.tool_choice, tools),
            reasoning_effort=self.reasoning_effort,
            think_tokens=self.max_thinking_tokens,
            template_options=options_of(self.chat_template_kwargs),
            continues=self.edgedec.continues,
            sampling=sampling_of(self.others),
            max_tokens=self.max_completion_tokens or self.max_tokens,
            stop=stops_of(self.stop),
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            samples=self.n,
            grammar=grammar_of(self.response_format),
        )
