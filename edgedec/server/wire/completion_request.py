"""The body of a text completion."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from edgedec.server.wire.body import MaxTokens, Refusal
from edgedec.server.wire.choices import ChoicesBody
from edgedec.server.wire.errors import invalid
from edgedec.server.wire.limits import stops_of
from edgedec.server.wire.sampling import sampling_of
from edgedec.server.work.request import GenerationRequest
from edgedec.text.infill import Infill

_MOST_TOP = 5
_USUAL_TOKENS = 16
"""OpenAI's length of a completion where none is named."""


class CompletionBody(ChoicesBody):
    """The body of ``POST /v1/completions``."""

    prompt: Any
    max_tokens: MaxTokens = _USUAL_TOKENS
    logprobs: int | None = Field(default=None, ge=0, le=_MOST_TOP)
    suffix: str | None = None
    """Text behind the completion: a gap is filled."""
    echo: bool = False
    parse_special: bool = True
    """Whether control tokens in the prompt are tokens, as llama.cpp names it."""

    refused: ClassVar = {
        "best_of": Refusal("use n, and choose", 1),
    }

    @property
    def text(self) -> str:
        """The prompt. Raises ApiError."""
        given = self.prompt[0] if isinstance(self.prompt, list) and len(self.prompt) == 1 else self.prompt
        if not isinstance(given, str) or not given:
            raise invalid(
                "prompt should be one text; token ids and several prompts are not supported", "prompt"
            )
        return given

    def request(self) -> GenerationRequest:
        """Return the request that the body makes. Raises ApiError."""
        self.check_others()
        if self.echo and self.logprobs is not None:
            raise invalid("echo is not supported together with logprobs", "echo", "unsupported_parameter")
        if self.echo and self.suffix:
            raise invalid("echo is not supported together with suffix", "echo", "unsupported_parameter")
        return GenerationRequest(
            model=self.model,
            text=None if self.suffix else self.text,
            infill=Infill(self.text, self.suffix) if self.suffix else None,
            sampling=sampling_of(self.others),
            max_tokens=self.max_tokens,
            stop=stops_of(self.stop),
            logprobs=self.logprobs,
            samples=self.n,
            parse_special=self.parse_special,
        )
