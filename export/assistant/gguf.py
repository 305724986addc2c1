"""Writes an assistant as a GGUF file of llama.cpp's architecture ``gemma4-assistant``.

As llama.cpp's converter does, it leaves out the clusters of the vocabulary: llama.cpp scores all of it, and
refuses a file that has clusters. EdgeDec reads such a file as an assistant without clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from edgedec.bundle.assistant_facts import GRAPH, AssistantFacts
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.assistant.sizes import ARCHITECTURE
from edgedec.export.assistant.source import CENTROIDS, ROPE_FACTORS, TABLE
from edgedec.export.drafters.gguf import other_model, tokens_of
from edgedec.export.drafters.interface import GgufForm, StoredDrafter
from edgedec.export.gguf_source import GgufSource
from edgedec.export.gguf_writer import ARCHITECTURE as ARCHITECTURE_KEY
from edgedec.export.gguf_writer import GgufTensor, metadata_for
from edgedec.export.model import CACHE, RINGS, attributes
from edgedec.export.stored import GraphWeights

_STILL = 1e30
"""Divisor of the frequency of a pair that does not turn."""


def assistant_gguf(drafter: StoredDrafter, source: GgufSource, name: str) -> GgufForm:
    """Return the assistant as ``DrafterFiles.gguf`` does."""
    facts = AssistantFacts.of(drafter.manifest.facts)
    tokens = source.metadata.get("tokenizer.ggml.tokens")
    width = source.metadata.get(f"{source.metadata.get(ARCHITECTURE_KEY)}.embedding_length")
    if width != facts.target_hidden or not isinstance(tokens, list) or len(tokens) != facts.ids:
        raise other_model(source, "assistant")
    if facts.hidden == facts.target_hidden:
        raise UnsupportedError("llama.cpp has no assistants as wide as their model", hint="use it here")
    stored = GraphWeights(drafter.folder, GRAPH)
    layers = _layers(stored)
    metadata = metadata_for(ARCHITECTURE, name, _facts(facts, layers, drafter.target))
    return {**metadata, **tokens_of(source)}, _tensors(stored, layers)


@dataclass(frozen=True, slots=True)
class _Layers:
    """Facts of the layers in a graph. ``local``: whether each sees only the newest tokens."""

    local: tuple[bool, ...]
    heads: tuple[int, ...]
    """Key heads of the cache that each reads."""
    dims: dict[str, int]
    """Size of a head, by the cache that the layers read."""
    frequencies: dict[str, NDArray[np.float32]]
    window: int
    epsilon: float


def _layers(stored: GraphWeights) -> _Layers:
    nodes = [node for node in stored.graph.node if node.op_type == "TreeAttention"]
    nodes.sort(key=lambda node: int(node.name.split(".")[1]))
    facts = [attributes(node) for node in nodes]
    caches = [node.input[4] for node in nodes]
    return _Layers(
        tuple(cache == RINGS for cache in caches),
        tuple(int(str(one["num_kv_heads"])) for one in facts),
        {cache: int(str(one["head_dim"])) for cache, one in zip(caches, facts, strict=True)},
        {cache: stored.vector(f"{cache}.inv_freq") for cache in set(caches)},
        max(int(str(one["window"])) for one in facts),
        float(str(facts[0]["epsilon"])),
    )


def _tensors(stored: GraphWeights, layers: _Layers) -> list[GgufTensor]:
    found = {name: stored.tensor(name) for name in stored.names() if name != CENTROIDS}
    ordering = next((node for node in stored.graph.node if node.output[0] == "ordering"), None)
    if ordering is not None:  # rows of the table lie by cluster
        order = numpy_helper.to_array(ordering.attribute[0].t)
        table = np.empty_like(found[TABLE].data)
        table[order] = found[TABLE].data
        found[TABLE] = GgufTensor(TABLE, table, found[TABLE].format)
    if CACHE in layers.frequencies:
        divisors = np.where(layers.frequencies[CACHE] > 0, 1.0, _STILL).astype(np.float32)
        found[ROPE_FACTORS] = GgufTensor(ROPE_FACTORS, divisors)
    return list(found.values())


def _facts(facts: AssistantFacts, layers: _Layers, manifest: Manifest) -> dict[str, Any]:
    count = len(layers.local)
    wide = layers.dims.get(CACHE, layers.dims.get(RINGS, 0))
    narrow = layers.dims.get(RINGS, wide)
    found: dict[str, Any] = {
        "block_count": count,
        "context_length": manifest.spec.context_length,
        "embedding_length": facts.hidden,
        "embedding_length_out": facts.target_hidden,
        "embedding_length_per_layer_input": 0,
        "nextn_predict_layers": count,
        "feed_forward_length": facts.ffn,
        "attention.head_count": facts.heads,
        "attention.key_length": wide,
        "attention.value_length": wide,
        "attention.key_length_swa": narrow,
        "attention.value_length_swa": narrow,
        "attention.sliding_window": layers.window or 512,
        "attention.shared_kv_layers": count,
        "rope.dimension_count": wide,
        "rope.dimension_count_swa": narrow,
        "attention.head_count_kv": list(layers.heads),
        "attention.sliding_window_pattern": list(layers.local),
        "attention.layer_norm_rms_epsilon": layers.epsilon,
    }
    for key, cache in (("rope.freq_base", CACHE), ("rope.freq_base_swa", RINGS)):
        if cache in layers.frequencies:
            found[key] = _base(layers.frequencies[cache])
    return found


def _base(frequencies: NDArray[np.float32]) -> float:
    """Return the base of the frequencies base^(-i/n), of which the last may be 0."""
    last = int(np.flatnonzero(frequencies)[-1])
    steps = frequencies.size / last if last else 1.0
    return float(f"{float(frequencies[last]) ** -steps:.6g}")
