"""Builds the graph of a drafting head; ``weights`` says what it computes.

Inputs: ``taps`` f32[c, 3 t] of c committed tokens, ``states`` f32[m - c, d] of drafted ones behind them,
``tokens`` i64[m], ``positions``, ``parents``, ``length``, ``rows`` as in a model's graph, the head's own
``kv_cache``, and ``table``, the target's embedding table, which lies in another file. A head with a table of
its own has it among its weights.
Outputs: ``out`` f32[m, d], the states of the next drafted tokens; ``values``, ``ids`` (of the target),
``logsumexp`` and ``entropy`` of the rows asked for; ``kv_new`` f16[1, 2, kv heads, m or 0, row], keys and
values that the caller stores. Kernels store them themselves, and return none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from edgedec.bundle.head_facts import TAPS
from edgedec.export.blocks.rotary import inverse_frequencies
from edgedec.export.builder import GraphBuilder, table_facts
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.export.interface import HEAD_K
from edgedec.export.model import CACHE, ExportModel, VectorWeight
from edgedec.export.passes.return_new_kv import OUTPUT as NEW_KV
from edgedec.export.stored import GraphMatrix
from edgedec.export.tensors import Tensors
from edgedec.memory import kv_row_name

_TWO_TERMS = 2
"""Int8 terms of the inputs of fc, q, k and v, whose rounding loses most accuracy."""


def build_graph(weights: HeadWeights, tensors: Tensors, table: GraphMatrix | None) -> ExportModel:
    """Build the graph, already fused. ``table`` None: the head's own, which ``weights`` has.

    Raises BadFileError or UnsupportedError.
    """
    return _Builder(weights, tensors, table).build()


class _Builder(GraphBuilder):
    def __init__(self, weights: HeadWeights, tensors: Tensors, table: GraphMatrix | None) -> None:
        self.weights, self.shared, self.ids = weights, table, int(weights.keep.size)
        w = weights
        rows: list[str | int | None] = [1, 2, w.kv_heads, "new_rows", kv_row_name(w.head_dim)]
        inputs = layer_inputs(
            w.width, w.hidden, (w.kv_heads, w.head_dim), [shared_table("table", table)] if table else []
        )
        new_kv = helper.make_tensor_value_info(NEW_KV, TensorProto.FLOAT16, rows)
        outputs = [*layer_outputs(w.hidden, min(HEAD_K, self.ids)), new_kv]
        super().__init__(ExportModel(inputs, outputs), tensors)

    def build(self) -> ExportModel:
        w, d = self.weights, self.weights.hidden
        fused = self.linear("fc", self.taps(), {"fc": d}, w.width, terms=_TWO_TERMS)
        state = self.op("Concat", "state", [fused, "states"], domain="", axis=0)
        embedded, normed = self.embedded(), self.norm("norm_state", state)
        x = self.op("Concat", "input", [self.norm("norm_embed", embedded), normed], domain="", axis=1)
        h = self.attention(x, normed if w.norm_before_residual else state)
        gated = self.mlp(self.norm("ffn_norm", h))
        y = "unnormed" if w.norm_output else "out"
        self.linear("ffn_down", gated, {"ffn_down": d}, w.ffn, residual=h, out=y)
        if w.norm_output:
            self.norm("output_norm", y, out="out")
        selected = self.op("Gather", "selected", ["out", "rows"], domain="", axis=0)
        self.head(selected if w.norm_output else self.norm("output_norm", selected))
        self.tensors.require_all_taken()
        return self.model

    def taps(self) -> str:
        """Return the hidden states as ``fc`` reads them."""
        w = self.weights
        if w.norm_taps is None:
            return "taps"
        if not w.norm_each:
            return self.norm("norm_taps", "taps", w.width)
        parts = [f"taps.{part}" for part in range(TAPS)]
        self.node("Split", "parts", ["taps"], parts, domain="", axis=1, num_outputs=TAPS)
        normed = [self.norm(f"norm_taps.{at}", part, w.width // TAPS) for at, part in enumerate(parts)]
        return self.op("Concat", "normed_taps", normed, domain="", axis=1)

    def embedded(self) -> str:
        w = self.weights
        name, lookup = "table", table_facts(self.shared) if self.shared else {}
        if self.shared is None:
            assert w.embedding is not None
            name = self.matrix("embedding", w.embedding.shape[0], w.hidden)
            lookup = self.table(name)
        alone = int(self.shared is None)
        return self.op("QuantEmbedding", "embedded", ["tokens", name], **lookup, scale=1.0, alone=alone)

    def attention(self, x: str, residual: str) -> str:
        w = self.weights
        queries, keys = w.heads * w.head_dim, w.kv_heads * w.head_dim
        parts = {"attn_q": queries, "attn_k": keys, "attn_v": keys}
        qkv = self.linear("attn_qkv", x, parts, 2 * w.hidden, terms=_TWO_TERMS)
        frequencies = inverse_frequencies(w.rope_base, w.head_dim, factors=w.rope_factors)
        self.model.weights["inv_freq"] = VectorWeight(frequencies)
        rotary = self.op("RotaryTable", "rotary", ["positions", "inv_freq"])
        norms = [self.vector(name, w.head_dim) for name in ("q_norm", "k_norm") if w.q_norm is not None]
        self.node(
            "TreeAttention",
            "attention",
            [qkv, rotary, "parents", "length", CACHE, *norms],
            ["attention", NEW_KV],
            layer=0,
            num_heads=w.heads,
            num_kv_heads=w.kv_heads,
            head_dim=w.head_dim,
            scale=1.0 / math.sqrt(w.head_dim),
            window=0,
            ring=0,
            interleaved=0,
            epsilon=w.epsilon,
        )
        return self.linear("attn_output", "attention", {"attn_output": w.hidden}, queries, residual=residual)

    def mlp(self, x: str) -> str:
        w = self.weights
        names = [self.matrix(name, w.ffn, w.hidden) for name in ("ffn_gate", "ffn_up")]
        return self.gated("gated", x, names, "silu")

    def head(self, x: str) -> None:
        head = self.matrix("head", self.ids, self.weights.hidden)
        self.literal("no_logits", np.zeros(1, np.int64))
        self.literal("keep", self.weights.keep.astype(np.int32))
        facts = {**self.table(head), "k": min(HEAD_K, self.ids), "refine": 1}
        found = ["values", "places", "logsumexp", "entropy", "logits"]
        self.node("HeadTopK", "head", [x, head, "no_logits"], found, **facts)
        self.node("Gather", "target_ids", ["keep", "places"], ["ids"], domain="", axis=0)

    def norm(self, name: str, x: str, size: int = 0, out: str = "") -> str:
        weight = self.vector(name, size or self.weights.hidden)
        return self.op("RMSNorm", out or f"{name}.out", [x, weight], epsilon=self.weights.epsilon)

    def linear(
        self, name: str, x: str, parts: dict[str, int], cols: int, *, terms: int = 1, **more: str
    ) -> str:
        """Multiply ``x`` by matrices of these rows, one below the other. ``more``: ``residual``, ``out``."""
        matrices = [self.matrix(part, rows, cols) for part, rows in parts.items()]
        out, residual = more.get("out", f"{name}.out"), more.get("residual", "")
        return self.products(out, x, matrices, residual=residual, terms=terms)

    def literal(self, name: str, values: Any) -> None:
        """Add a constant of any type."""
        self.node("Constant", name, [], [name], domain="", value=numpy_helper.from_array(values, name))


def layer_inputs(
    width: int, hidden: int, cache: tuple[int, int], between: Sequence[ValueInfoProto]
) -> list[ValueInfoProto]:
    """Return the inputs of a drafter of one layer that reads hidden states of ``width`` numbers.

    ``cache``: its key heads, and their size. ``between``: its own inputs, which stand before the cache.
    """
    value, (heads, head_dim) = helper.make_tensor_value_info, cache
    return [
        value("taps", TensorProto.FLOAT, ["committed", width]),
        value("states", TensorProto.FLOAT, ["drafted", hidden]),
        *(value(name, TensorProto.INT64, ["tokens"]) for name in ("tokens", "positions", "parents")),
        value("length", TensorProto.INT64, [1]),
        value("rows", TensorProto.INT64, ["rows"]),
        *between,
        value(CACHE, TensorProto.FLOAT16, [1, 2, heads, "capacity", kv_row_name(head_dim)]),
    ]


def layer_outputs(hidden: int, k: int) -> list[ValueInfoProto]:
    """Return the outputs of a drafter of one layer, with ``k`` entries for each row."""
    value = helper.make_tensor_value_info
    return [
        value("out", TensorProto.FLOAT, ["tokens", hidden]),
        value("values", TensorProto.FLOAT, ["rows", k]),
        value("ids", TensorProto.INT32, ["rows", k]),
        value("logsumexp", TensorProto.FLOAT, ["rows"]),
        value("entropy", TensorProto.FLOAT, ["rows"]),
    ]


def shared_table(name: str, table: GraphMatrix) -> ValueInfoProto:
    """Return the input for a table of the target."""
    return helper.make_tensor_value_info(name, TensorProto.UINT8, [table.tiles, table.tile_bytes])
