"""Memory of a process, as a formula over the sizes of its models and the choices of a plan.

After SpecMemo (2025), which models the memory of speculation to bound it; its formulas are not public, these
are derived from the allocations of this runtime. With n tokens of context, a prompt read T tokens at a time
and g drafted for a pass, P = max(T, 1 + g), D, F the widths of hidden state and MLP, Q the query, key and
value width, H the heads' width:

    process   resident bytes once the models are loaded, weights apart: measured, not modelled
    weights   every byte of the file, for a pass reads them all, but a table of embeddings that the head does
              not share: its rows are copied from the file
    cache     2 L H_kv ceil(n r / page) page: each head's rows, r bytes each, lie together, and pages are
              committed as they fill. Drafts need none of their own: rejected rows are overwritten. In layers
              with a window, n is at most the slots of a ring: window, P, and tokens that can be taken back
    scratch   1.5 P (4 (3 D + F + Q) + 1.4 F + 4 (D + Q + H)) + 96 n threads: tensors of a layer and buffers
              of the kernels, held at once; the arena rounds up by up to half; 24 queries share a block
              of attention, each with a float per key
    rows      4 V (1 + g) + s V, where whole rows of logits may be asked for (sampling), else 0: drawing from
              one takes s bytes for each entry, next to none or some arrays in float64, and conversations
              draw at the same time
    attention where a full cache evicts by attention (SpecKV): see ``speckv_bytes``
    tables    data that drafters without a model may learn
    drafter   weights, cache and scratch of a model that drafts, whose passes are short
    slack     6.5 MB and 1.5 kB a token: Python, libraries and the buffers of passes, as
              measured

With k conversations at once, n is the context of each: cache, rows, tables and slack per token are k times as
large, P is (k - 1) (1 + g) longer, and slack has 1 MB for each conversation but one.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgedec.core.cache_config import KvType
from edgedec.core.model_spec import ModelSpec
from edgedec.memory.sizes import PAGE, kv_row_bytes, ring_slots
from edgedec.memory.speckv_bytes import speckv_bytes

_ARENA = 1.5
_SLACK, _SLACK_PER_TOKEN = 6_500_000, 1_500
_SLACK_PER_CONVERSATION = 1_000_000
"""Bytes of each one more: its thread, its text, and its part of a pass."""
_BLOCK_QUERIES = 24
"""kMostQueries of the kernels: vectors that share a block of attention, each with a float per key."""
_DRAFT_READING = 128
"""Tokens of the longest pass of a model that drafts: it reads no more of a text."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Choices of a plan: tokens of context and how they are kept, tokens of a prompt read at once, tokens
    drafted for a pass, bytes of drafter tables, and whether a model drafts.
    """

    context: int
    kv: KvType = "fp16"
    prompt_pass: int = 128
    drafted: int = 15
    tables: int = 0
    model_drafts: bool = False


@dataclass(frozen=True, slots=True)
class Weighty:
    """A model as memory: its sizes, bytes of its weights that a pass reads, threads that compute it."""

    spec: ModelSpec
    weights: int
    threads: int


@dataclass(frozen=True, slots=True)
class Known:
    """Facts that no plan changes. ``process``: bytes resident with the models loaded, without their weights.

    ``drawing``: bytes for each entry of a whole row of logits that drawing from it takes, 0 where none is
    asked for. ``drafter``: the model that may draft.
    ``kinds``: how the model's cache can be kept.
    """

    target: Weighty
    process: int
    drawing: int = 0
    drafter: Weighty | None = None
    kinds: tuple[KvType, ...] = ("fp16", "int8")
    conversations: int = 1
    """At once, over the one model."""
    speckv: bool = False
    """Whether a full cache is made room in by ``memory.speckv``."""


def longest_pass(choice: Choice, conversations: int = 1) -> int:
    """Tokens: a piece of one conversation's prompt, beside the drafts of all others."""
    return max(choice.prompt_pass, 1 + choice.drafted) + (conversations - 1) * (1 + choice.drafted)


def footprint(known: Known, choice: Choice) -> dict[str, int]:
    """Bytes by holder; their sum is the most that the session has resident at once."""
    spec = known.target.spec
    count = known.conversations
    slack = _SLACK + (count - 1) * _SLACK_PER_CONVERSATION
    parts = {
        "process": known.process,
        "weights": known.target.weights,
        "kv_cache": cache_bytes(spec, choice.context, choice.kv, longest_pass(choice), count),
        "scratch": _scratch_bytes(known.target, longest_pass(choice, count), choice.context),
        "rows": rows_bytes(known, choice.drafted),
        "attention": speckv_bytes(spec, choice.context, longest_pass(choice)) if known.speckv else 0,
        "tables": count * choice.tables,
        "drafter": _drafter_bytes(known.drafter, choice) if known.drafter and choice.model_drafts else 0,
        "slack": slack + _SLACK_PER_TOKEN * count * choice.context,
    }
    return {name: count for name, count in parts.items() if count}


def rows_bytes(known: Known, drafted: int) -> int:
    """Bytes of whole rows of logits: one for each of ``drafted`` tokens and one more, and a draw from one.

    0 where nobody asks for whole rows (``drawing`` is 0, as for greedy decoding).
    """
    if not known.drawing:
        return 0
    return known.conversations * known.target.spec.vocab_size * (4 * (1 + drafted) + known.drawing)


def cache_bytes(spec: ModelSpec, context: int, kv: KvType, longest: int, conversations: int = 1) -> int:
    """Bytes of the pages that ``context`` tokens come to fill, in passes over at most ``longest``."""
    windowed, row = spec.n_window_layers, kv_row_bytes(spec.head_dim, kv)
    ring = ring_slots(spec, context, longest, kv)
    whole, rings = (-(-conversations * slots * row // PAGE) for slots in (context, ring))
    return 2 * spec.n_kv_heads * ((spec.n_layers - windowed) * whole + windowed * rings) * PAGE


def scratch_bytes(spec: ModelSpec, threads: int, tokens: int, context: int) -> int:
    """Bytes that a pass over ``tokens`` tokens holds for a moment beside its results."""
    hidden, ffn = spec.hidden_size, spec.ffn_size or 4 * spec.hidden_size
    heads = spec.n_heads * spec.head_dim
    qkv = heads + 2 * spec.n_kv_heads * spec.head_dim
    tensors = 4 * (3 * hidden + ffn + qkv)
    buffers = 1.4 * ffn + 4 * (hidden + qkv + heads)
    scores = 4 * _BLOCK_QUERIES * context * threads
    return int(_ARENA * tokens * (tensors + buffers)) + scores


def _scratch_bytes(model: Weighty, tokens: int, context: int) -> int:
    return scratch_bytes(model.spec, model.threads, tokens, context)


def _drafter_bytes(model: Weighty, choice: Choice) -> int:
    context = min(choice.context, model.spec.context_length)
    longest = min(_DRAFT_READING, choice.context)
    cache = cache_bytes(model.spec, context, choice.kv, longest_pass(choice))
    return model.weights + cache + _scratch_bytes(model, longest, context)
