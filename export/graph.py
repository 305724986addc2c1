"""Builds the graph of a decoder of any architecture, one op a step; the passes then fuse it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgedec.core.errors import BadFileError
from edgedec.export.builder import GraphBuilder
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.model import ATTENTION, CACHE, RINGS, ExportModel, VectorWeight
from edgedec.export.tensors import Part, Tensors
from edgedec.memory import kv_row_name

HEAD_K = 64
"""Entries per row that the head returns; fewer for a smaller vocabulary."""
ROPE_FACTORS = "rope_freqs.weight"
"""Name of the tensor f32[d/2] of divisors of the frequencies, in Llama 3 models."""
SHORT_FACTORS, LONG_FACTORS = "rope_factors_short.weight", "rope_factors_long.weight"
"""Names of the divisors of LongRoPE: up to the original context, which a bundle is limited to, and beyond."""
_QKV_TERMS = 2
"""Int8 terms of the input of q, k and v: two terms are about 15 bits.

Rounding this input to 8 bits would lose more accuracy than rounding any other. Together with the head's
refinement, two terms halve the KL divergence of SmolLM2 from float32.
"""


def build_graph(hyper: Hyperparameters, tensors: Tensors) -> ExportModel:
    """Build the unfused graph of a decoder; weights stay in the file.

    Raises BadFileError or UnsupportedError.
    """
    return _Builder(hyper, tensors).build()


def inverse_frequencies(
    base: float, head_dim: int, divisor: float = 1.0, factors: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return f32[d/2]: base^(-2i/d), divided by ``divisor`` (linear scaling) and by ``factors`` f32[d/2]."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
    frequencies = base**-exponents / divisor
    if factors is not None:
        frequencies /= factors.astype(np.float64)
    return frequencies.astype(np.float32)


def paired_rows(hyper: Hyperparameters, rows: int) -> NDArray[np.int64]:
    """Return the order int64[rows] of q, k and v in which the kernels rotate only a part of each head.

    Such a head has rotated pairs (i, i + r/2) with r = ``rotary_dim``, and then elements that stay. In this
    order pairs are (i, i + d/2), and those that stay come last. The same order in q and k changes no product.
    """
    half, rest = hyper.rotary_dim // 2, (hyper.head_dim - hyper.rotary_dim) // 2
    first, second, stay = np.split(np.arange(hyper.head_dim), [half, hyper.rotary_dim])
    head = np.concatenate([first, stay[:rest], second, stay[rest:]])
    turned = (hyper.heads + hyper.kv_heads) * hyper.head_dim
    order = np.arange(rows)
    order[:turned] = (order[: turned : hyper.head_dim, None] + head).ravel()
    return order


class _Builder(GraphBuilder):
    def __init__(self, hyper: Hyperparameters, tensors: Tensors) -> None:
        self.vocab = tensors.rows_of("token_embd.weight")
        super().__init__(ExportModel(_inputs(hyper), _outputs(self.vocab)), tensors)
        self.hyper, self.arch = hyper, hyper.architecture

    def build(self) -> ExportModel:
        hyper = self.hyper
        table = self.matrix("token_embd.weight", self.vocab, hyper.hidden)
        scale = math.sqrt(hyper.hidden) if self.arch.scale_embedding else 1.0
        tied = not self.tensors.has("output.weight")
        lookup = {**self.table(table), "scale": scale, "alone": int(not tied)}
        x = self.op("QuantEmbedding", "embedding", ["tokens", table], **lookup)
        rotary = self.rotary_tables()
        for layer, window in enumerate(hyper.windows):
            place = sum((other > 0) == (window > 0) for other in hyper.windows[:layer])
            x = self.layer(f"blk.{layer}.", place, x, rotary[layer], window)
        x = self.op("Gather", "selected", [x, "rows"], domain="", axis=0)
        x = self.norm("output_norm", x)
        head = table if tied else self.matrix("output.weight", self.vocab, hyper.hidden)
        attrs = {**self.table(head), "k": min(HEAD_K, self.vocab), "refine": 1, **_cap(hyper.final_softcap)}
        outputs = [value.name for value in self.model.outputs]
        self.defaults()
        self.node("HeadTopK", "head", [x, head, "want_logits", "", "temperature"], outputs, **attrs)
        self.tensors.require_all_taken()
        return self.model

    def defaults(self) -> None:
        """Add the inputs that a caller may leave out: weights that hold their default values."""
        self.model.weights["temperature"] = VectorWeight(np.ones(1, dtype=np.float32))
        if layers := self.hyper.windows.count(0):
            nothing = np.empty((layers, self.hyper.kv_heads, 0), dtype=np.float32)
            self.model.weights[ATTENTION] = VectorWeight(nothing)

    def layer(self, block: str, place: int, x: str, rotary: str, window: int) -> str:
        attention = self.attention(block, place, self.norm(block + "attn_norm", x), rotary, window)
        if self.arch.post_norms:
            attention = self.norm(block + "post_attention_norm", attention)
        x = self.op("Add", block + "after_attention", [x, attention], domain="")
        mlp = self.mlp(block, self.norm(block + "ffn_norm", x))
        if self.arch.post_norms:
            mlp = self.norm(block + "post_ffw_norm", mlp)
        return self.op("Add", block + "out", [x, mlp], domain="")

    def attention(self, block: str, place: int, x: str, rotary: str, window: int) -> str:
        """``place`` is the index of the layer in its cache, which has rings of slots if there is a window."""
        hyper = self.hyper
        queries, keys = hyper.heads * hyper.head_dim, hyper.kv_heads * hyper.head_dim
        qkv = self.qkv(block, x, queries, keys)
        inputs = [qkv, rotary, "parents", "length", RINGS if window else CACHE]
        if self.arch.qk_norm:
            inputs += [self.vector(f"{block}attn_{n}_norm.weight", hyper.head_dim) for n in ("q", "k")]
        if not window:
            inputs += [*([] if self.arch.qk_norm else ["", ""]), ATTENTION]
        heads = self.op(
            "TreeAttention",
            block + "attention",
            inputs,
            layer=place,
            num_heads=hyper.heads,
            num_kv_heads=hyper.kv_heads,
            head_dim=hyper.head_dim,
            scale=hyper.attention_scale,
            window=window,
            ring=int(window > 0),
            interleaved=int(self.arch.interleaved),
            epsilon=hyper.epsilon,
            **_cap(hyper.attention_softcap),
        )
        return self.linear(block + "attn_output", heads, (hyper.hidden, queries))

    def qkv(self, block: str, x: str, queries: int, keys: int) -> str:
        hidden = self.hyper.hidden
        if self.arch.fused:
            rows = queries + 2 * keys
            whole = self.hyper.rotary_dim == self.hyper.head_dim
            order = None if whole else partial(paired_rows, self.hyper, rows)
            part = Part(block + "attn_qkv.weight", 0, rows, order)
            return self.linear(block + "attn_qkv", x, (rows, hidden), terms=_QKV_TERMS, part=part)
        parts = [
            self.linear(block + name, x, (rows, hidden), self.arch.qkv_bias, terms=_QKV_TERMS)
            for name, rows in (("attn_q", queries), ("attn_k", keys), ("attn_v", keys))
        ]
        return self.op("Concat", block + "qkv", parts, domain="", axis=1)

    def mlp(self, block: str, x: str) -> str:
        hyper = self.hyper
        halves: list[Part | None] = [None, None]
        if self.arch.fused:
            halves = [Part(block + "ffn_up.weight", first, 2 * hyper.ffn) for first in (0, hyper.ffn)]
        gate = self.linear(block + "ffn_gate", x, (hyper.ffn, hyper.hidden), part=halves[0])
        up = self.linear(block + "ffn_up", x, (hyper.ffn, hyper.hidden), part=halves[1])
        if self.arch.activation == "gelu_tanh":
            active = self.op("Gelu", block + "active", [gate], domain="", approximate="tanh")
        else:
            sigmoid = self.op("Sigmoid", block + "sigmoid", [gate], domain="")
            active = self.op("Mul", block + "active", [gate, sigmoid], domain="")
        gated = self.op("Mul", block + "gated", [active, up], domain="")
        return self.linear(block + "ffn_down", gated, (hyper.hidden, hyper.ffn))

    def rotary_tables(self) -> list[str]:
        """Return each layer's rotary table: the plain one, that of windows, or one that rotates nothing."""
        hyper = self.hyper
        factors = None
        for name in (ROPE_FACTORS, *((LONG_FACTORS, SHORT_FACTORS) if self.arch.long_rope else ())):
            if self.tensors.has(name):  # the last one counts
                factors = self.tensors.vector(name, hyper.rotary_dim // 2).values
                if factors.min() <= 0:
                    raise BadFileError(f"tensor {name} holds values that are not positive")
        values = inverse_frequencies(hyper.rope_base, hyper.rotary_dim, hyper.rope_divisor, factors)
        tables = [self.rotary_table("rotary", values)] * hyper.layers
        if hyper.local_rope_base is not None:
            local = self.rotary_table(
                "rotary_local", inverse_frequencies(hyper.local_rope_base, hyper.rotary_dim)
            )
            tables = [local if window else plain for plain, window in zip(tables, hyper.windows, strict=True)]
        if period := self.arch.no_rope_period:
            still = self.rotary_table("rotary_none", np.zeros_like(values))
            tables = [table if (layer + 1) % period else still for layer, table in enumerate(tables)]
        return tables

    def rotary_table(self, name: str, frequencies: NDArray[np.float32]) -> str:
        """Add a table for ``frequencies`` f32[rotary dim / 2]; the other pairs of a head have frequency 0."""
        others = self.hyper.head_dim // 2 - frequencies.size
        self.model.weights[f"{name}.inv_freq"] = VectorWeight(np.pad(frequencies, (0, others)))
        table = self.op("RotaryTable", name, ["positions", f"{name}.inv_freq"])
        if self.hyper.rotary_scale == 1.0:
            return table
        turned = np.arange(frequencies.size + others) < frequencies.size
        scale = np.where(np.tile(turned, 2), self.hyper.rotary_scale, 1.0).astype(np.float32)
        self.model.weights[f"{name}.scale"] = VectorWeight(scale)
        return self.op("Mul", f"{name}_scaled", [table, f"{name}.scale"], domain="")

    def norm(self, name: str, x: str) -> str:
        weight = self.vector(name + ".weight", self.hyper.hidden)
        return self.op("RMSNorm", name, [x, weight], epsilon=self.hyper.epsilon)

    def linear(
        self,
        name: str,
        x: str,
        shape: tuple[int, int],
        bias: bool = False,
        terms: int = 1,
        part: Part | None = None,
    ) -> str:
        """Multiply ``x`` by the matrix ``name`` of ``shape`` (rows, columns)."""
        rows, cols = shape
        weight = self.matrix(name + ".weight", rows, cols, part)
        inputs = [x, self.vector(name + ".bias", rows) if bias else "", "", weight]
        formats = self.format(weight)
        return self.op("QuantLinear", name, inputs, formats=formats, rows=[rows], cols=cols, terms=terms)

    def table(self, weight: str) -> dict[str, Any]:
        return {"format": self.format(weight), "rows": self.vocab, "cols": self.hyper.hidden}


def _cap(softcap: float) -> dict[str, Any]:
    """The attribute of ops that know a softcap, left out where there is none."""
    return {"softcap": softcap} if softcap else {}


def _inputs(hyper: Hyperparameters) -> list[onnx.ValueInfoProto]:
    windows = sum(window > 0 for window in hyper.windows)
    rings = [_cache(hyper, RINGS, windows, "ring")] if windows else []
    layers = hyper.layers - windows
    shape: list[str | int | None] = [layers, hyper.kv_heads, "attended"]
    looked = [helper.make_tensor_value_info(ATTENTION, TensorProto.FLOAT, shape)] if layers else []
    return [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, ["tokens"]),
        helper.make_tensor_value_info("positions", TensorProto.INT64, ["tokens"]),
        helper.make_tensor_value_info("parents", TensorProto.INT64, ["tokens"]),
        # One length, or one for each sequence of a batch: see the kernels' sequences.h.
        helper.make_tensor_value_info("length", TensorProto.INT64, ["lengths"]),
        helper.make_tensor_value_info("rows", TensorProto.INT64, ["rows"]),
        helper.make_tensor_value_info("want_logits", TensorProto.INT64, [1]),
        _cache(hyper, CACHE, layers, "capacity"),
        *rings,
        # A caller may leave out either of these two.
        helper.make_tensor_value_info("temperature", TensorProto.FLOAT, [1]),
        *looked,
    ]


def _cache(hyper: Hyperparameters, name: str, layers: int, slots: str) -> onnx.ValueInfoProto:
    row = kv_row_name(hyper.head_dim)  # the kernels tell the two kinds of row by their size
    return helper.make_tensor_value_info(name, TensorProto.FLOAT16, [layers, 2, hyper.kv_heads, slots, row])


def _outputs(vocab: int) -> list[onnx.ValueInfoProto]:
    k = min(HEAD_K, vocab)
    return [
        helper.make_tensor_value_info("values", TensorProto.FLOAT, ["rows", k]),
        helper.make_tensor_value_info("ids", TensorProto.INT32, ["rows", k]),
        helper.make_tensor_value_info("logsumexp", TensorProto.FLOAT, ["rows"]),
        helper.make_tensor_value_info("entropy", TensorProto.FLOAT, ["rows"]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["full_rows", vocab]),
    ]
