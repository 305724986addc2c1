"""Everything a user chooses about how a model runs, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Literal, get_args

from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.preset import Preset
from edgedec.control.switching import SwitchRule
from edgedec.core.cache_config import LOSSY, MOST_SEQUENCES, WHEN_FULL, Device, KvChoice, KvType, WhenFull
from edgedec.core.errors import Remedy, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import parse_size
from edgedec.drafters.interface import DrafterSpec
from edgedec.drafters.registry import AUTO, MOST_DRAFTED, parsed
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.sampling import DrawParams
from edgedec.sampling.named import Sampling, chosen, params_of
from edgedec.telemetry.cores import check_usable

Objective = Literal["time", "energy"]
MOST_CONTEXT_WEIGHT = 10.0
MemoryRule = Callable[[MemoryFacts, MemoryChoice], int]
"""Computes a budget in bytes from the sizes of the loaded models and the choice that nothing limits."""


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """A memory rule for a model that shares ``budget`` bytes with others; alone, it may take all of them."""

    budget: int
    rule: MemoryRule

    def __call__(self, facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return self.rule(facts, wanted)


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """The settings of a run that memory is planned for; see ``RunConfig``. ``limit``: None for none."""

    limit: int | MemoryRule | None = None
    context: int | None = None
    kv: KvType = "fp16"
    draft_tokens: int = MOST_DRAFTED
    sequences: int = 1
    sampling: Sampling | None = None
    structured: bool = False
    when_full: WhenFull | None = None
    contrast: bool = False


NO_TEMPLATE = ""
"""In place of a chat template: messages are text to continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """How a model runs: threads, KV cache, memory budget, drafters.

    Raises UsageError for a value that no model can run with.

    >>> RunConfig(memory="600MB", context=2048).memory_bytes
    600000000
    """

    threads: int | None = None
    """Compute threads, at most the cores that this process may use. None: one per physical core."""
    device: Device = "cpu"
    """Where the model runs: "cpu", "gpu", or "npu" for one that was exported for it. Draft models run on the
    CPU.
    """
    device_memory: int | str | None = None
    """Most memory of the GPU, as ``memory``. None: as much as it has."""
    gpu_layers: int | None = None
    """The number of layers that run on the GPU, from the first on; the CPU runs the others. None: all."""
    context: int | None = None
    """Tokens the KV cache holds. None: the model's own limit, at most 4096, less under a tight ``memory``."""
    kv: KvChoice = "fp16"
    """How the KV cache keeps keys and values: "fp16", "int8" in about half the memory, or "auto": int8 for a
    long context where attention over it is quicker here.
    """
    memory: int | str | MemoryRule | None = None
    """Most memory of the whole process: bytes, or text such as "600MB". None: no limit."""
    draft: str = AUTO
    """Drafters by comma: "auto", "off", kinds of drafters (``edgedec.drafters.registry.KINDS``), and draft
    models by name or path. "auto" includes drafters that belong to the model, and an installed draft model
    that suits it.
    """
    draft_tokens: int = MOST_DRAFTED
    """Most tokens drafted for one pass."""
    objective: Objective = "time"
    """The aim of drafting: "time", or "energy" for the fewest joules a token, which takes a meter."""
    history: bool = False
    """Whether text of prompts and replies is kept on disk: the drafters' knowledge, and typed prompts."""
    prefixes: int | str | None = None
    """Most disk of the saved prefixes of all models, as ``memory``; None: none are saved or read. They have
    the KV cache of prompts, whose text it can tell.
    """
    when_full: WhenFull | None = None
    """The way to go on when the context is full. None: a chat drops its oldest turns, a completion stops."""
    switch: str | None = None
    """A smaller model that writes where it is sure, by name or path; the model itself the rest. Lossy."""
    switch_rule: SwitchRule | None = None
    """The threshold of ``switch``; None: ``control.switching.DEFAULT_RULE``."""
    context_weight: float | None = None
    """Weight of what a text changes, above 0 and at most 10, in replies to an ``AboutText``.
    Lossy: the logits with the text count 1 + weight times, less weight times those without it.
    """
    conversations: int | None = None
    """Conversations that share each pass, for ``Model.conversations``. None: one chat or completion."""
    lora: tuple[str, ...] = ()
    """Adapters in the form of LoRA: each a GGUF file or a directory of PEFT, with ":" and a scale behind it
    if that is not 1. They change the model as long as it is open.
    """
    template: str | None = None
    """Jinja text of a chat template in place of the model's own; NO_TEMPLATE: a chat is text to continue."""
    thinking: bool | None = None
    """Whether replies think first, where the chat template has a switch for it; None: as it does unasked."""
    think_tokens: int | None = None
    """Most tokens of a thought; then the words that close it follow, and the answer. None: no limit."""
    sampling: Sampling | None = None
    """How replies are drawn unless a call says otherwise: ``SamplingParams``, or a mapping with names of it.
    The memory plan has room for it. The model's preset has the values that it does not name.
    """
    structured: bool = False
    """Whether the memory plan has room for replies of a given form: see ``Model.chat``."""
    drafters: tuple[DrafterSpec, ...] = field(init=False, repr=False, compare=False, default=())
    """``draft``, parsed."""

    def __post_init__(self) -> None:
        check_usable(self.threads)
        _at_least(self.context, 2, "tokens of context")
        if not 1 <= self.draft_tokens <= MOST_DRAFTED:
            raise UsageError(
                f"{self.draft_tokens} drafted tokens are not possible", hint=f"use 1 to {MOST_DRAFTED}"
            )
        if self.conversations is not None and not 1 <= self.conversations <= MOST_SEQUENCES:
            raise UsageError(
                f"a batch of {self.conversations} conversations is not possible",
                hint=f"use 1 to {MOST_SEQUENCES}",
                remedy=Remedy("conversations", MOST_SEQUENCES),
            )
        if self.kv not in get_args(KvChoice):
            raise UsageError(f"there is no KV cache in {self.kv!r:.40}", hint="there are fp16, int8 and auto")
        if self.device not in get_args(Device):
            raise UsageError(f"there is no device {self.device!r:.40}", hint="there are cpu, npu and gpu")
        if self.device != "gpu" and (self.device_memory is not None or self.gpu_layers is not None):
            raise UsageError(
                "memory and layers of a device are those of a GPU",
                hint="run the model there",
                remedy=Remedy("gpu"),
            )
        _at_least(self.gpu_layers, 1, "layers on a GPU")
        if self.objective not in get_args(Objective):
            raise UsageError(f"drafts cannot aim at {self.objective!r:.40}", hint="at time or energy")
        if self.objective == "energy" and (self.conversations or 1) > 1:
            raise UsageError(
                "several conversations at once are drafted for time only",
                hint="aim at time, or run one conversation",
                remedy=(Remedy("objective"), Remedy("conversations")),
            )
        if self.when_full not in (None, *WHEN_FULL):
            raise UsageError(
                f"a full context cannot {self.when_full!r:.40}", hint=f"choose of {', '.join(WHEN_FULL)}"
            )
        if self.switch is not None and (self.conversations is not None or self.when_full in LOSSY):
            raise UsageError(
                "two models take turns in a single conversation whose context is not evicted",
                hint="use one model for a batch of conversations, or where a full context evicts tokens",
            )
        if self.context_weight is not None:
            self._check_contrast(self.context_weight)
        if self.prefixes is not None and self.switch is not None:
            raise UsageError("no prefixes are saved where two models take turns", hint="use one model")
        for given in (self.memory, self.device_memory, self.prefixes):
            if isinstance(given, str):
                parse_size(given)
        object.__setattr__(self, "sampling", params_of(self.sampling))
        object.__setattr__(self, "drafters", parsed(self.draft))

    def _check_contrast(self, weight: float) -> None:
        if not 0 < weight <= MOST_CONTEXT_WEIGHT:
            raise UsageError(
                f"a text cannot have the weight {weight:g}", hint=f"above 0, at most {MOST_CONTEXT_WEIGHT:g}"
            )
        others = {
            "several conversations": self.conversations is not None,
            "two models that take turns": self.switch is not None,
            "a full context that evicts tokens": self.when_full in LOSSY,
            "drafts that aim at energy": self.objective == "energy",
        }
        for name, asked in others.items():
            if asked:
                raise UsageError(
                    f"a context weight does not go with {name}",
                    hint="leave one out",
                    remedy=Remedy("context_weight"),
                )

    @property
    def memory_bytes(self) -> int | MemoryRule | None:
        """``memory`` with text turned into bytes."""
        return parse_size(self.memory) if isinstance(self.memory, str) else self.memory

    @property
    def prefix_bytes(self) -> int | None:
        """``prefixes`` with text turned into bytes."""
        return parse_size(self.prefixes) if isinstance(self.prefixes, str) else self.prefixes

    @property
    def known_kv(self) -> KvType:
        """``kv``, or fp16 as long as nothing is chosen."""
        return "fp16" if self.kv == "auto" else self.kv

    @property
    def memory_request(self) -> MemoryRequest:
        """The settings that memory is planned for."""
        return MemoryRequest(
            self.memory_bytes,
            self.context,
            self.known_kv,
            self.draft_tokens,
            self.sequences,
            self.sampling,
            self.structured or self.think_tokens is not None,
            self.when_full,
            self.context_weight is not None,
        )

    @property
    def placement(self) -> DevicePlace:
        """Where the model runs."""
        memory = self.device_memory if self.device == "gpu" else self.memory_bytes
        if isinstance(memory, SharedMemory):
            memory = memory.budget
        return DevicePlace(
            self.device,
            parse_size(memory) if isinstance(memory, str) else memory if isinstance(memory, int) else None,
            self.context,
            self.known_kv,
            self.gpu_layers,
            sequences=self.sequences,
        )

    @property
    def sequences(self) -> int:
        """Sequences that share the KV cache: of each conversation, or with a text and without it."""
        return 2 if self.context_weight is not None else self.conversations or 1

    def sampling_for(self, preset: Preset) -> DrawParams:
        """Return how the replies of a model with this preset are drawn."""
        return chosen(self.sampling, DrawParams.of(preset))


def _at_least(value: int | None, least: int, what: str) -> None:
    if value is not None and value < least:
        raise UsageError(f"{value} {what} are not possible", hint=f"use {least} or more")
