"""Bodies about texts, tokens and gaps, as llama.cpp's server has them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from edgedec.server.wire.body import BodyPart, MaxTokens, RequestBody
from edgedec.server.wire.limits import stops_of
from edgedec.server.wire.sampling import NAMES, sampling_of
from edgedec.server.work.request import GenerationRequest
from edgedec.text.infill import Infill

_RENAMED = {"repeat_penalty": "repetition_penalty", "typical_p": "typical"}


class TokenizeBody(RequestBody):
    """The body of ``POST /tokenize``."""

    content: str
    model: str | None = None
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeBody(RequestBody):
    """The body of ``POST /detokenize``."""

    tokens: list[int]
    model: str | None = None


class OtherFile(BodyPart):
    """A file beside the one with the gap."""

    text: str
    filename: str = "file"


class InfillBody(RequestBody):
    """The body of ``POST /infill``: texts before and behind a gap, and ``prompt``, its beginning."""

    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: list[OtherFile] = Field(default_factory=list)
    prompt: str = ""
    model: str | None = None
    stream: bool = False
    n_predict: int | None = Field(default=None, ge=-1)
    max_tokens: MaxTokens = None
    stop: Any = None

    harmless: ClassVar = RequestBody.harmless | {
        "n_indent", "n_keep", "response_fields", "samplers", "t_max_predict_ms", "t_max_prompt_ms",
    }  # fmt: skip

    @property
    def reads_only(self) -> bool:
        """Whether the texts are read for a later request, and nothing is written."""
        return self.n_predict == 0

    def request(self) -> GenerationRequest:
        """Return the request that the body makes. Raises ApiError, UsageError."""
        self.refuse_others((*NAMES, *_RENAMED))
        extra = tuple((one.filename, one.text) for one in self.input_extra)
        given = {_RENAMED.get(name, name): value for name, value in self.others.items()}
        most = self.max_tokens if self.n_predict in (None, -1) else max(self.n_predict or 0, 1)
        return GenerationRequest(
            model=self.model,
            infill=Infill(self.input_prefix, self.input_suffix, self.prompt, extra),
            sampling=sampling_of(given),
            max_tokens=most,
            stop=stops_of(self.stop),
        )
