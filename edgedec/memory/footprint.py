"""Memory of a process by purpose: the facts and choices that decide it.

kernels/core/memory/footprint.h has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from json import loads
from typing import Any

from edgedec.core.cache_config import KvType
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core_lib.memory import MEMORY, REST, int8, packed
from edgedec.memory.sizes import numbers_of
from edgedec.memory.speckv_bytes import LOOKAHEAD, WINDOW


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """The settings that a memory plan may lower."""

    context: int
    """Tokens of the KV cache, for each sequence."""
    kv: KvType = "fp16"
    """Number format of the KV cache."""
    prompt_pass: int = 128
    """Tokens of a prompt in one pass."""
    drafted: int = 15
    """Most drafted tokens in one pass."""
    tables: int = 0
    """Bytes that drafters without a model may learn, for each sequence."""
    model_drafts: bool = False
    """Whether drafters with weights of their own are used: a draft model, a trained head."""
    experts: int = 0
    """Experts in memory at a time, of a model that reads them from the disk."""


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """The facts of a loaded model that decide its memory."""

    spec: ModelSpec
    weights: int
    """Bytes of the weights that a pass reads."""
    threads: int
    hidden: int = 0
    """Numbers of a token's hidden states, if the model was opened to return them."""
    exits: int = 0
    """Exits that it was opened with."""
    experts: ExpertMemory | None = None
    """Experts that are not among ``weights``."""


@dataclass(frozen=True, slots=True)
class ExpertMemory:
    """Room for experts that are read from the disk."""

    slot_bytes: int
    """Bytes of one."""
    least: int
    """Experts with which passes go on."""
    most: int
    """Experts of the whole model, or as many as the machine has room for."""


@dataclass(frozen=True, slots=True)
class DrafterMemory:
    """The memory of a drafter with weights of its own."""

    part: str
    """Its name in the plan."""
    why: str
    """The same for readers of the plan."""
    weights: int
    """Bytes of the weights that its passes read; 0 if another part has them."""
    rest: Callable[[MemoryChoice, int], int]
    """Returns the bytes of cache, scratch and buffers by the choices of a plan and the sequences."""


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """The facts that no plan changes."""

    target: ModelMemory
    process: int
    """Bytes resident with the models loaded, without their weights."""
    drawing: int = 0
    """Bytes that a draw takes for each entry of a whole row of logits; 0: nobody asks for whole rows."""
    grammar: int = 0
    """Bytes that grammars take of the vocabulary; 0: nobody asks for structured output."""
    drafters: tuple[DrafterMemory, ...] = ()
    """Drafters with weights of their own."""
    unnamed: bool = False
    """Whether nobody named these drafters: they take only memory that nothing else needs."""
    small: ModelMemory | None = None
    """The small model that takes turns with the target, if there is one."""
    kinds: tuple[KvType, ...] = ("fp16", "int8")
    """Formats that the KV cache can have."""
    sequences: int = 1
    """Sequences that share the model and its passes."""
    speckv: bool = False
    """Whether a full cache evicts by attention."""
    contrast: bool = False
    """Whether the sequences are one conversation's, with a text and without it."""

    @property
    def drafted(self) -> int:
        """Sequences that drafters draft for."""
        return 1 if self.contrast else self.sequences


def longest_pass(choice: MemoryChoice, sequences: int = 1) -> int:
    """Tokens of the longest pass: a piece of one sequence's prompt, beside the drafts of all others."""
    return int(MEMORY.longest_pass(choice_numbers(choice), sequences))


def footprint(facts: MemoryFacts, choice: MemoryChoice) -> dict[str, int]:
    """Return bytes by purpose. Their sum is the most that the process has resident at once."""
    parts: dict[str, int] = loads(of_core("footprint", facts, choice))
    return parts


def cache_bytes(spec: ModelSpec, context: int, kv: KvType, longest: int, sequences: int = 1) -> int:
    """Bytes of the pages that ``context`` tokens fill, in passes over at most ``longest`` tokens."""
    numbers = packed(numbers_of(spec))
    return int(MEMORY.cache_bytes(numbers, context, int8(kv), longest, sequences))


def scratch_bytes(spec: ModelSpec, threads: int, tokens: int, context: int, exits: int = 0) -> int:
    """Bytes that a pass over ``tokens`` tokens holds for a moment beside its results.

    ``exits``: of a graph that has them.
    """
    return int(MEMORY.scratch_bytes(packed(numbers_of(spec)), threads, tokens, context, exits))


def draft_model_bytes(model: ModelMemory, choice: MemoryChoice, sequences: int, beside: int) -> int:
    """Bytes of a draft model beside its weights: cache and scratch.

    ``beside``: tokens of each other conversation in a pass.
    """
    numbers = packed(_model_numbers(model))
    return int(MEMORY.draft_model_bytes(numbers, choice_numbers(choice), sequences, beside))


def of_core(name: str, facts: MemoryFacts, choice: MemoryChoice, *more: int) -> Any:
    """Call a function of the core that takes facts and a choice. Raises what a drafter's ``rest`` raised."""
    failed: list[BaseException] = []

    def rest(index: int, numbers: Any) -> int:
        context, in_int8, prompt_pass, drafted, tables, model_drafts, experts = numbers[:7]
        kv: KvType = "int8" if in_int8 else "fp16"
        asked = MemoryChoice(context, kv, prompt_pass, drafted, tables, bool(model_drafts), experts)
        try:
            return 0 if failed else facts.drafters[index].rest(asked, facts.drafted)
        except BaseException as error:  # raised once the core has returned: it cannot pass through
            failed.append(error)
            return 0

    names = "\0".join([*(one.part for one in facts.drafters), facts.target.spec.name])
    encoded = names.encode(errors="surrogatepass")
    found = getattr(MEMORY, name)(packed(_numbers(facts)), encoded, REST(rest), choice_numbers(choice), *more)
    if failed:
        raise failed[0]
    return found


def choice_numbers(choice: MemoryChoice) -> bytes:
    """Return a choice as the core takes it."""
    lengths = choice.prompt_pass, choice.drafted, choice.tables
    return packed([choice.context, int8(choice.kv), *lengths, choice.model_drafts, choice.experts])


def _numbers(facts: MemoryFacts) -> list[int]:
    return [
        *_model_numbers(facts.target),
        *((True, *_model_numbers(facts.small)) if facts.small else (False,)),
        facts.process, facts.drawing, facts.grammar, facts.unnamed,
        *(kv in facts.kinds for kv in ("fp16", "int8")),
        facts.sequences, WINDOW + LOOKAHEAD if facts.speckv else 0,
        len(facts.drafters), *(one.weights for one in facts.drafters),
    ]  # fmt: skip


def _model_numbers(model: ModelMemory) -> list[int]:
    room = model.experts
    slots = (room.slot_bytes, room.least, room.most) if room else (0, 0, 0)
    return [*numbers_of(model.spec), model.weights, model.threads, model.hidden, model.exits, *slots]
