"""The body of a response."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from edgedec.server.wire.body import BodyPart, Effort, MaxTokens, Refusal, RequestBody
from edgedec.server.wire.formats import grammar_of
from edgedec.server.wire.limits import MOST_TOP
from edgedec.server.wire.response_items import input_messages
from edgedec.server.wire.sampling import NAMES, sampling_of
from edgedec.server.wire.tools import choice_of, flat_tools_of
from edgedec.server.work.request import GenerationRequest

LOGPROBS = "message.output_text.logprobs"
_NO_STORE = "nothing is stored; send the items that came before as input"


class TextOptions(BodyPart):
    """The form of the text."""

    format: Any = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningOptions(BodyPart):
    """How much a model thinks; summaries of it are never made."""

    effort: Effort | None = None
    summary: str | None = None
    generate_summary: str | None = None


class ResponseBody(RequestBody):
    """The body of ``POST /v1/responses``."""

    input: Any
    model: str | None = None
    instructions: str | None = None
    stream: bool = False
    max_output_tokens: MaxTokens = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_TOP)
    include: list[str] = Field(default_factory=list)
    text: TextOptions = TextOptions()
    reasoning: ReasoningOptions = ReasoningOptions()
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool = True

    harmless: ClassVar = RequestBody.harmless | {
        "access_programs", "max_tool_calls", "stream_options", "truncation",
    }  # fmt: skip
    refused: ClassVar = {
        "background": Refusal("requests are answered at once", False),
        "context_management": Refusal("the client manages the context", []),
        "conversation": Refusal(_NO_STORE),
        "previous_response_id": Refusal(_NO_STORE),
        "prompt": Refusal("there are no stored prompts; send its text as instructions"),
    }

    @property
    def wants_logprobs(self) -> bool:
        """Whether tokens come with their log-probabilities."""
        return LOGPROBS in self.include or bool(self.top_logprobs)

    def request(self) -> GenerationRequest:
        """Return the request that the body makes. Raises ApiError."""
        self.refuse_others([name for name in NAMES if name != "stop"])
        tools = flat_tools_of(self.tools)
        return GenerationRequest(
            model=self.model,
            tools=tools,
            tool_choice=choice_of(self.tool_choice, tools),
            reasoning_effort=self.reasoning.effort,
            messages=input_messages(self.input, self.instructions),
            sampling=sampling_of(self.others),
            max_tokens=self.max_output_tokens,
            logprobs=(self.top_logprobs or 0) if self.wants_logprobs else None,
            grammar=grammar_of(self.text.format, "text.format"),
        )
