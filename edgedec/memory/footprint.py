"""Memory of a process, as a formula over the sizes of its models and the choices of a plan.

After SpecMemo (2025), which models the memory of speculation to bound it. Its formulas are not public; these
are derived from the allocations of this runtime.

Symbols: n tokens of context; T tokens of a prompt in one pass; g drafted tokens in one pass;
P = max(T, 1 + g); D and F the widths of hidden state and MLP; Q the width of query, key and value together;
H the width of all heads; V the vocabulary; L layers; H_kv key/value heads; r bytes of a row.

    process    resident bytes once the models are loaded, weights apart: measured, not modelled. The most
               that the process for an unknown chat template takes is added
    weights    all bytes of the file, for a pass reads them all. A table of embeddings that the head does not
               share does not count: passes copy its rows from the file
    experts    slots for experts that are read from the disk: what the other parts leave of the budget
    kv_cache   2 L H_kv ceil(n r / page) page: the rows of a head lie together, and pages are committed as
               they fill. Drafts need none of their own: rejected rows are overwritten. In layers with a
               window, n is at most the slots of a ring: window, P, and tokens that can be taken back
    state      4 L_s (35 t + 2 s) where L_s recurrent layers keep t numbers of a token and a state of s: rows
               of the newest tokens, the state, and a checkpoint to go back to; for any n
    scratch    1.5 P (4 (3 D + F + Q) + 1.4 F + 4 (D + Q + H)) + 96 n threads: tensors of a layer and buffers
               of the kernels, held at once. With X exits, 4 (X + 3) D P more before the factor. The arena
               rounds up by up to half. 24 queries share a block of attention, each with a float per key.
               With E experts of width W, of which a token takes k: 4 P E + 5.5 (D + W) max(P, min(P k, 512))
    rows       V (4 (1 + g) + s) where sampling may ask for whole rows of logits, else 0: a draw from a row
               takes s bytes for each entry, and all sequences draw at the same time
    grammar    as ``edgedec.grammar`` states for V tokens, where structured output is asked for
    hidden     4 (2 P W + 2 (1 + g) (W + D)) where a drafter reads hidden states, W numbers a token
    attention  where a full cache evicts by attention (SpecKV): see ``speckv_bytes``
    tables     data that drafters without a model learn
    small      weights, cache, scratch and tables of a small model that takes turns with the target
    drafter    and others of drafters with weights of their own: as each kind states in ``edgedec.drafters``
    slack      6.5 MB and 1.5 kB a token: Python, libraries and the buffers of passes, as measured

With k sequences, n is the context of each: cache, rows, tables and slack per token are k times as large, P is
(k - 1) (1 + g) longer, and slack has 1 MB for each sequence but one. A draft model has k caches, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgedec.core.cache_config import KvType
from edgedec.core.model_spec import ModelSpec
from edgedec.memory.sizes import PAGE, kv_row_bytes, ring_slots, state_bytes
from edgedec.memory.speckv_bytes import speckv_bytes

_ARENA = 1.5
_SLACK_BYTES, _SLACK_BYTES_PER_TOKEN = 6_500_000, 1_500
_SLACK_BYTES_PER_SEQUENCE = 1_000_000
"""For each sequence but the first: its thread, its text, and its part of a pass."""
_BLOCK_QUERIES = 24
"""kMostQueries of the kernels: vectors that share a block of attention, each with a float per key."""
_PAIRS = 512
"""kPairsAtOnce of the kernels: pairs of a token and an expert that are computed together."""
_TAPS = 3
"""Layers whose outputs are hidden states."""


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


def longest_pass(choice: MemoryChoice, sequences: int = 1) -> int:
    """Tokens of the longest pass: a piece of one sequence's prompt, beside the drafts of all others."""
    return max(choice.prompt_pass, 1 + choice.drafted) + (sequences - 1) * (1 + choice.drafted)


def footprint(facts: MemoryFacts, choice: MemoryChoice) -> dict[str, int]:
    """Return bytes by purpose. Their sum is the most that the process has resident at once."""
    spec = facts.target.spec
    count = facts.sequences
    slack = _SLACK_BYTES + (count - 1) * _SLACK_BYTES_PER_SEQUENCE
    parts = {
        "process": facts.process,
        "weights": facts.target.weights,
        "experts": choice.experts * facts.target.experts.slot_bytes if facts.target.experts else 0,
        "kv_cache": cache_bytes(spec, choice.context, choice.kv, longest_pass(choice), count),
        "state": count * state_bytes(spec.states),
        "scratch": model_scratch_bytes(facts.target, longest_pass(choice, count), choice.context),
        "rows": rows_bytes(facts, choice.drafted),
        "grammar": facts.grammar,
        "hidden": hidden_bytes(facts.target, longest_pass(choice), choice.drafted),
        "attention": speckv_bytes(spec, choice.context, longest_pass(choice)) if facts.speckv else 0,
        "tables": count * choice.tables,
        **{one.part: one.weights + one.rest(choice, count) for one in facts.drafters if choice.model_drafts},
        "small": small_bytes(facts.small, choice) if facts.small else 0,
        "slack": slack + _SLACK_BYTES_PER_TOKEN * count * choice.context,
    }
    return {name: nbytes for name, nbytes in parts.items() if nbytes}


def rows_bytes(facts: MemoryFacts, drafted: int) -> int:
    """Bytes of whole rows of logits: one for each of ``drafted`` tokens and one more, and a draw from one.

    0 where nobody asks for whole rows, as in greedy decoding.
    """
    if not facts.drawing:
        return 0
    vocab = max(one.spec.vocab_size for one in (facts.target, facts.small) if one)
    return facts.sequences * vocab * (4 * (1 + drafted) + facts.drawing)


def hidden_bytes(model: ModelMemory, longest: int, drafted: int) -> int:
    """Bytes of the hidden states of a pass, by layer and side by side, and of rows of peeked tokens.

    Rows of peeked tokens are held twice while more are added. 0 for a model opened without exits.
    """
    if not model.hidden:
        return 0
    return 4 * (2 * longest * model.hidden + 2 * (1 + drafted) * (model.hidden + model.spec.hidden_size))


def cache_bytes(spec: ModelSpec, context: int, kv: KvType, longest: int, sequences: int = 1) -> int:
    """Bytes of the pages that ``context`` tokens fill, in passes over at most ``longest`` tokens."""
    ring = ring_slots(spec, context, longest, kv)
    pages = 0
    for keys in spec.keys:
        slots = sequences * (ring if keys.window else context)
        pages += 2 * keys.kv_heads * keys.layers * -(-slots * kv_row_bytes(keys.head_dim, kv) // PAGE)
    return pages * PAGE


def scratch_bytes(spec: ModelSpec, threads: int, tokens: int, context: int, exits: int = 0) -> int:
    """Bytes that a pass over ``tokens`` tokens holds for a moment beside its results.

    ``exits``: of a graph that has them. The runtime holds the rows of each, and of three layers more, as long
    as the pass runs.
    """
    hidden, ffn = spec.hidden_size, spec.ffn_size
    heads, qkv = attention_widths(spec)
    held = exits + _TAPS if exits else 0
    tensors = 4 * ((3 + held) * hidden + ffn + qkv)
    buffers = 1.4 * ffn + 4 * (hidden + qkv + heads)
    scores = 4 * _BLOCK_QUERIES * context * threads
    return int(_ARENA * tokens * (tensors + buffers)) + scores + _routed_bytes(spec, tokens)


def _routed_bytes(spec: ModelSpec, tokens: int) -> int:
    """Return the bytes of a router's scores, and of the tokens' inputs and outputs of experts."""
    if (experts := spec.experts) is None:
        return 0
    pairs = max(tokens, min(tokens * experts.chosen, _PAIRS))
    return int(4 * tokens * experts.count + 5.5 * pairs * (spec.hidden_size + experts.width))


def attention_widths(spec: ModelSpec) -> tuple[int, int]:
    """Return the widths of all query heads, and of query, key and value together, where they are largest.

    Recurrent layers have wider ones: their trail's row and a gate, or three such rows.
    """
    widest = max((keys.head_dim for keys in spec.keys), default=spec.head_dim)
    keys_and_values = max((2 * keys.kv_heads * keys.head_dim for keys in spec.keys), default=0)
    heads = spec.n_heads * widest
    rows = (kind.trail * (2 if kind.state else 3) for kind in spec.states)
    return max([heads, *(kind.trail for kind in spec.states)]), max([heads + keys_and_values, *rows])


def model_scratch_bytes(model: ModelMemory, tokens: int, context: int) -> int:
    """Bytes that a pass of ``model`` over ``tokens`` tokens holds for a moment; see ``scratch_bytes``."""
    return scratch_bytes(model.spec, model.threads, tokens, context, model.exits)


def small_bytes(model: ModelMemory, choice: MemoryChoice) -> int:
    """Bytes of a small model that takes turns with the target: weights, cache, scratch and tables."""
    context, longest = min(choice.context, model.spec.context_length), longest_pass(choice)
    cache = cache_bytes(model.spec, context, choice.kv, longest) + state_bytes(model.spec.states)
    return model.weights + cache + model_scratch_bytes(model, longest, context) + choice.tables
