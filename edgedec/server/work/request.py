"""A request for text, the events that answer it, the limits on it, and the state of the server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import BackendError, EdgeDecError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling.named import SamplingParams

if TYPE_CHECKING:
    from edgedec.bundle.preset import Preset
    from edgedec.grammar import GrammarSpec
    from edgedec.session.prompt import Message
    from edgedec.session.token_logprob import TokenLogprob
    from edgedec.text.infill import Infill

MOST_SAMPLES = 16
"""Replies to one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One request for text: a chat's next reply, or the continuation of a text.

    The prompt is a function of the request alone, and so is the reply. Raises UsageError for values that no
    model can answer.
    """

    model: str | None = None
    """Name of an installed model. None: the first model of the server."""
    messages: tuple[Message, ...] = ()
    text: str | None = None
    """In place of messages: continue it as it stands."""
    infill: Infill | None = None
    """In place of messages and text: write what is between two texts."""
    parse_special: bool = True
    """Whether control tokens in ``text`` are tokens; in messages and tools they never are."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tool objects in OpenAI's form, for the chat template."""
    tool_choice: str = "auto"
    """ "auto", "none", "required", or the name of a function."""
    template_options: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the chat template, such as ``enable_thinking``."""
    reasoning_effort: str | None = None
    """One of ``EFFORTS``: how much a reply thinks, as far as the model's chat template can say it."""
    think_tokens: int | None = None
    """Most tokens of a thought, which is closed then. None: as the effort says."""
    continues: bool = False
    """Whether the last message is an assistant's, and the reply goes on with it."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    """Values that it does not name are those of the model's preset."""
    max_tokens: int | None = None
    """Most tokens of a reply. None: as far as the context and the server's limit allow."""
    stop: tuple[str, ...] = ()
    """Strings that end a reply, beside those of the model's preset."""
    logprobs: int | None = None
    """Alternatives to report beside each token's log-probability. None reports nothing."""
    samples: int = 1
    """Replies; number i is the one alone with ``seed + i``."""
    grammar: GrammarSpec | None = None
    """The form that replies must have."""

    def __post_init__(self) -> None:
        if [bool(self.messages), self.text is not None, self.infill is not None].count(True) != 1:
            raise UsageError("a request has either messages or a text", hint="give one of them")
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise UsageError(f"{self.samples} replies are not possible", hint=f"ask for 1 to {MOST_SAMPLES}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"cannot generate {self.max_tokens} tokens", hint="ask for at least 1")
        if self.continues and (not self.messages or self.messages[-1].role != "assistant"):
            raise UsageError("there is no reply to continue", hint="end with a message of the assistant")


@dataclass(frozen=True, slots=True)
class TracedToken:
    """A token of a reply; ``source`` is the drafter that proposed it, None for the target's own."""

    id: int
    text: str
    source: str | None = None
    logprob: TokenLogprob | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that a sample has gained, mostly in one pass, and the tokens behind it."""

    sample: int
    text: str
    tokens: tuple[TracedToken, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Cost of one sample."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Tokens of the prompt that were in the KV cache already, or on the disk."""
    disk_tokens: int = 0
    """Those of them that were read from the disk."""
    completion_tokens: int = 0
    drafted_tokens: int = 0
    """Drafted tokens that were accepted."""
    queue_s: float = 0.0
    """From the arrival of the request to a slot."""
    prefill_s: float = 0.0
    decode_s: float = 0.0
    passes: int = 0
    """Passes that decoded tokens of it."""
    joules: float | None = None
    """An estimate: its tokens' share of the passes that it was in. None where none can be made."""

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens after the first per second; None for fewer than two tokens."""
        steps = self.completion_tokens - 1
        return steps / self.decode_s if steps > 0 and self.decode_s > 0 else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Block efficiency; None without a pass."""
        return self.completion_tokens / self.passes if self.passes else None


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a sample: ``reason`` is one of ``Reply.finish_reason``, ``stop`` its stop string."""

    sample: int
    reason: str
    usage: Usage
    stop: str | None = None


Event = Piece | Ended


class BusyError(EdgeDecError):
    """The queue is full; there may be room in ``retry_after_s`` seconds."""

    def __init__(self, message: str, *, retry_after_s: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or f"try again in {math.ceil(retry_after_s)} s")
        self.retry_after_s = retry_after_s


class ClosingError(BackendError):
    """The server is shutting down and takes no more requests."""


class TimeLimitError(BackendError):
    """A request waited for longer than the server allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Bounds of a server's work."""

    waiting: int = 32
    """Requests in the queue, over all models."""
    request_s: float = 600.0
    """Longest time of a request from its arrival; then its replies are interrupted."""
    prompt_tokens: int | None = None
    """Longest prompt. None: as the context allows."""
    reply_tokens: int | None = None
    """Longest reply. None: as the context allows."""
    samples: int = MOST_SAMPLES
    """Most replies to one request."""
    models: int = 2
    """Models that are loaded at once where no memory budget decides."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and value <= 0:
                raise UsageError(f"the limit {name} cannot be {value}", hint="it must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A model that requests can name. ``context`` and the like are None for a bundle that cannot be read."""

    name: str
    created: int
    """Seconds since 1970 at which it was installed."""
    loaded: bool = False
    context: int | None = None
    """Tokens that a slot has room for; until it is loaded, the most that the model allows."""
    preset: Preset | None = None
    has_template: bool = False
    dimensions: int = 0
    """Numbers of a vector, of a model that makes them of texts; 0 for one that replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStatus:
    """A sequence of a model's KV cache."""

    busy: bool
    cached_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """A model that is loaded, or being loaded."""

    name: str
    state: str
    """ "loading", "ready" or "closing"."""
    context: int | None
    waiting: int
    slots: tuple[SlotStatus, ...]
    ledger: Mapping[str, int]
    """Bytes leased by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a server; counts are since its start."""

    closing: bool
    uptime_s: float
    memory_bytes: int
    """Memory of the process."""
    memory_budget_bytes: int | None
    running: int
    """Requests in a slot."""
    waiting: int
    """Requests in the queue, those for models being loaded included."""
    slots: int
    models: tuple[ModelStatus, ...]
    requests: int
    """Requests that were taken."""
    refused: int
    failed: int
    cancelled: int
    prompt_tokens: int
    cached_tokens: int
    disk_tokens: int = 0
    completion_tokens: int
    drafted_tokens: int
    passes: int
    """Passes over one slot or several."""
    slot_passes: int
    """Passes that decoded, counted once for each slot in them."""

    @property
    def tokens_per_pass(self) -> float | None:
        """Block efficiency: tokens of a slot per pass that decoded it; None before the first."""
        return self.completion_tokens / self.slot_passes if self.slot_passes else None

    def as_json(self) -> dict[str, Any]:
        """Return the fields, and the tokens per pass, as JSON."""
        return {**asdict(self), "tokens_per_pass": self.tokens_per_pass}
