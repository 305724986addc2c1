"""Builds the graph of an assistant of Gemma 4, for a step over one token.

It has layers without keys and values of their own: each reads those of the target's last layer of its kind
that has some. All drafts of a round are made at one position, that of the newest token::

    x = pre_projection @ [e; s]          # e: the target's embedding of the newest token; s: its last state
    x = the layers(x)
    y = norm(x)
    s of the next step = post_projection @ y
    logits = head @ y                    # of the clusters whose centroids are nearest to y, or of all tokens

For the first step ``s`` is the target's last state, behind its last norm; it comes as ``taps``, the output of
the target's last layer, and that norm is here once more.

Inputs: ``taps`` f32[c, D] and ``states`` f32[1 - c, D], of which one is empty, ``tokens`` i64[1],
``positions`` i64[1], ``parents`` i64[1] (-1), ``length`` i64[1], and of the target ``table`` (its embedding)
and its ``kv_cache`` and ``kv_window``. Slot ``length`` is the last one that the layers see: it holds a token
already.
Outputs: ``out`` f32[1, D], the next ``s``; ``values``, ``ids``, ``logsumexp`` and ``entropy`` of one row.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgedec.core.cache_kinds import Keys
from edgedec.export.assistant.sizes import AssistantSizes
from edgedec.export.assistant.source import CENTROIDS, TABLE
from edgedec.export.blocks.rotary import inverse_frequencies
from edgedec.export.builder import GraphBuilder, table_facts
from edgedec.export.draft_head.target import LastNorm
from edgedec.export.interface import HEAD_K
from edgedec.export.model import CACHE, RINGS, ExportModel, VectorWeight
from edgedec.export.stored import GraphMatrix
from edgedec.export.tensors import Tensors
from edgedec.memory import kv_row_name

_TWO_TERMS = 2
"""Int8 terms of inputs whose rounding loses most accuracy."""


def build_graph(
    sizes: AssistantSizes,
    tensors: Tensors,
    table: GraphMatrix,
    norm: LastNorm,
    caches: dict[str, Keys],
    ordering: NDArray[np.int64] | None,
) -> ExportModel:
    """Build the graph, already fused. Raises BadFileError or UnsupportedError.

    ``caches``: the target's keys by the inputs that hold them. ``ordering``: tokens by cluster.
    """
    return _Builder(sizes, tensors, table, caches).build(norm, ordering)


class _Builder(GraphBuilder):
    def __init__(
        self, sizes: AssistantSizes, tensors: Tensors, table: GraphMatrix, caches: dict[str, Keys]
    ) -> None:
        self.sizes, self.embedding, self.caches = sizes, table, caches
        self.vocab = tensors.rows_of(TABLE)
        self.scored = self.vocab // sizes.centroids * sizes.chosen if sizes.centroids else self.vocab
        self.k = min(HEAD_K, self.scored)
        super().__init__(ExportModel(_inputs(sizes, table, caches), _outputs(sizes, self.k)), tensors)

    def build(self, norm: LastNorm, ordering: NDArray[np.int64] | None) -> ExportModel:
        sizes, wide = self.sizes, self.sizes.target_hidden
        self.model.weights["target_norm"] = VectorWeight(norm.weight)
        read = self.op("RMSNorm", "read", ["taps", "target_norm"], epsilon=norm.epsilon)
        state = self.op("Concat", "state", [read, "states"], domain="", axis=0)
        lookup = {**table_facts(self.embedding), "scale": math.sqrt(wide)}
        embedded = self.op("QuantEmbedding", "embedding", ["tokens", "table"], **lookup)
        both = self.op("Concat", "both", [embedded, state], domain="", axis=1)
        x = self.linear("nextn.pre_projection", both, (sizes.hidden, 2 * wide), terms=_TWO_TERMS)
        sources = {name: self.shared(name) for name in self.caches}
        for layer, window in enumerate(sizes.windows):
            x = self.layer(layer, x, RINGS if window else CACHE, sources)
        y = self.norm("output_norm", x)
        self.linear("nextn.post_projection", y, (wide, sizes.hidden), out="out")
        self.head(y, ordering)
        self.tensors.require_all_taken()
        return self.model

    def shared(self, cache: str) -> tuple[str, str]:
        """Return the rotary table of layers that read ``cache``, and the row of its newest token.

        The kernels read the row in the cache. The bodies in standard ops read it here.
        """
        keys, sizes = self.caches[cache], self.sizes
        values = inverse_frequencies(sizes.local_rope_base, keys.head_dim)
        if cache == CACHE:
            values = inverse_frequencies(sizes.rope_base, keys.head_dim)
            values[sizes.rotary_dim // 2 :] = 0.0
        self.model.weights[f"{cache}.inv_freq"] = VectorWeight(values)
        rotary = self.op("RotaryTable", f"{cache}.rotary", ["positions", f"{cache}.inv_freq"])
        layer = self.integers(f"{cache}.layer", [keys.layers - 1])
        last = self.op("Gather", f"{cache}.last", [cache, layer], domain="", axis=0)
        slot = "length"
        if keys.window:
            shape = self.op("Shape", f"{cache}.slots", [cache], domain="", start=3, end=4)
            slot = self.op("Mod", f"{cache}.slot", ["length", shape], domain="")
        return rotary, self.op("Gather", f"{cache}.newest", [last, slot], domain="", axis=3)

    def layer(self, layer: int, x: str, cache: str, sources: dict[str, tuple[str, str]]) -> str:
        sizes, block = self.sizes, f"blk.{layer}."
        n = self.norm(block + "attn_norm", x)
        mixed = self.norm(block + "post_attention_norm", self.attention(block, n, cache, sources[cache]))
        x = self.op("Add", block + "after_attention", [x, mixed], domain="")
        names = [self.matrix(f"{block}ffn_{one}.weight", sizes.ffn, sizes.hidden) for one in ("gate", "up")]
        gated = self.gated(block + "gated", self.norm(block + "ffn_norm", x), names, "gelu_tanh")
        down = self.linear(block + "ffn_down", gated, (sizes.hidden, sizes.ffn))
        x = self.op("Add", block + "sum", [x, self.norm(block + "post_ffw_norm", down)], domain="")
        scale = self.vector(block + "layer_output_scale.weight", 1)
        return self.op("Mul", block + "out", [x, scale], domain="")

    def attention(self, block: str, x: str, cache: str, source: tuple[str, str]) -> str:
        keys, sizes = self.caches[cache], self.sizes
        queries = sizes.heads * keys.head_dim
        q = self.linear(block + "attn_q", x, (queries, sizes.hidden), terms=_TWO_TERMS)
        norm = self.vector(block + "attn_q_norm.weight", keys.head_dim)
        rotary, newest = source
        heads = self.op(
            "TreeAttention",
            block + "attention",
            [q, rotary, "parents", "length", cache, norm, "", "", newest],
            layer=keys.layers - 1,
            num_heads=sizes.heads,
            num_kv_heads=keys.kv_heads,
            head_dim=keys.head_dim,
            scale=1.0,
            window=keys.window,
            ring=int(keys.window > 0),
            interleaved=0,
            epsilon=sizes.epsilon,
            shared=1,
        )
        return self.linear(block + "attn_output", heads, (sizes.hidden, queries))

    def head(self, y: str, ordering: NDArray[np.int64] | None) -> None:
        """Score tokens: where there are clusters, those of the nearest, whose rows lie together."""
        table = self.matrix(TABLE, self.vocab, self.sizes.hidden)
        none, keep = self.integers("no_logits", [0]), ""
        facts = {**self.table(table), "k": self.k, "refine": 1}
        if ordering is not None:
            keep = self.nearest(y)
        found = ["values", "places" if keep else "ids", "logsumexp", "entropy", "logits"]
        self.node("HeadTopK", "head", [y, table, none, keep] if keep else [y, table, none], found, **facts)
        if ordering is not None:
            values = numpy_helper.from_array(ordering.astype(np.int32), "ordering")
            self.node("Constant", "ordering", [], ["ordering"], domain="", value=values)
            self.node("Gather", "tokens_of", ["ordering", "places"], ["ids"], domain="", axis=0)

    def nearest(self, y: str) -> str:
        """Return the rows i64[scored] of the nearest clusters, ascending."""
        sizes, each = self.sizes, self.vocab // self.sizes.centroids
        near = self.linear(
            CENTROIDS.removesuffix(".weight"), y, (sizes.centroids, sizes.hidden), terms=_TWO_TERMS
        )
        count = self.integers("chosen", [sizes.chosen])
        self.node("TopK", "nearest", [near, count], ["nearness", "clusters"], domain="", axis=1, sorted=0)
        flat = self.op("Reshape", "flat", ["clusters", self.integers("column", [-1])], domain="")
        self.node(
            "TopK",
            "sorted",
            [flat, count],
            ["ascending", "places_of_clusters"],
            domain="",
            axis=0,
            largest=0,
            sorted=1,
        )
        column = self.op("Reshape", "as_column", ["ascending", self.integers("tall", [-1, 1])], domain="")
        first = self.op("Mul", "first_rows", [column, self.integers("each", [each])], domain="")
        rows = self.op("Add", "all_rows", [first, self.integers("within", list(range(each)))], domain="")
        return self.op("Reshape", "kept_rows", [rows, "column"], domain="")

    def norm(self, name: str, x: str) -> str:
        weight = self.vector(f"{name}.weight", self.sizes.hidden)
        return self.op("RMSNorm", name, [x, weight], epsilon=self.sizes.epsilon)

    def linear(self, name: str, x: str, shape: tuple[int, int], *, terms: int = 1, out: str = "") -> str:
        return self.products(out or name, x, [self.matrix(f"{name}.weight", *shape)], terms=terms)

    def integers(self, name: str, values: list[int]) -> str:
        """Add a constant i64[n], once for each name."""
        if not any(node.name == name for node in self.model.nodes):
            self.constant(name, values)
        return name


def _inputs(sizes: AssistantSizes, table: GraphMatrix, caches: dict[str, Keys]) -> list[onnx.ValueInfoProto]:
    value = helper.make_tensor_value_info
    found = [
        value("taps", TensorProto.FLOAT, ["committed", sizes.target_hidden]),
        value("states", TensorProto.FLOAT, ["drafted", sizes.target_hidden]),
        *(value(name, TensorProto.INT64, [1]) for name in ("tokens", "positions", "parents", "length")),
        value("table", TensorProto.UINT8, [table.tiles, table.tile_bytes]),
    ]
    for name, keys in caches.items():
        row = kv_row_name(keys.head_dim)
        shape: list[str | int | None] = [keys.layers, 2, keys.kv_heads, f"{name}_slots", row]
        found.append(value(name, TensorProto.FLOAT16, shape))
    return found


def _outputs(sizes: AssistantSizes, k: int) -> list[onnx.ValueInfoProto]:
    value = helper.make_tensor_value_info
    return [
        value("out", TensorProto.FLOAT, [1, sizes.target_hidden]),
        value("values", TensorProto.FLOAT, [1, k]),
        value("ids", TensorProto.INT32, [1, k]),
        value("logsumexp", TensorProto.FLOAT, [1]),
        value("entropy", TensorProto.FLOAT, [1]),
    ]
