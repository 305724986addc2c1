"""The graph of the BERT family: MiniLM, BGE, E5 and others, and rerankers of it.

Every layer is attention and an MLP, each with a sum and a layer norm behind it. Source: Devlin et al. (2018).
"""

from __future__ import annotations

import math

import numpy as np

from edgedec.export.builder import GraphBuilder
from edgedec.export.encoders.ends import Ends, encoder_inputs, encoder_outputs, finish
from edgedec.export.encoders.sizes import BertSizes
from edgedec.export.model import ExportModel, VectorWeight
from edgedec.export.tensors import Part, Tensors


def bert_graph(sizes: BertSizes, tensors: Tensors, ends: Ends, size: int, terms: int) -> ExportModel:
    """Build the graph, whose vectors have ``size`` numbers; weights stay in their source.

    ``terms``: int8 terms of the inputs of linears, where weights are not floats. Raises BadFileError or
    UnsupportedError.
    """
    model = ExportModel(encoder_inputs(sizes.types > 1), encoder_outputs(size))
    builder = _BertBuilder(model, tensors, sizes, terms)
    finish(builder, builder.layers(), sizes.hidden, ends)
    tensors.require_all_taken()
    return model


class _BertBuilder(GraphBuilder):
    def __init__(self, model: ExportModel, tensors: Tensors, sizes: BertSizes, terms: int) -> None:
        super().__init__(model, tensors)
        self.sizes, self.terms = sizes, terms

    def layers(self) -> str:
        """Add everything before the pooling, and return the hidden states."""
        sizes = self.sizes
        x = self._norm("token_embd_norm", self._embedded(), added=self._places())
        # Positions are in the embedding: attention rotates nothing.
        self.model.weights["still"] = VectorWeight(np.zeros(sizes.head_dim // 2, np.float32))
        rotary = self.op("RotaryTable", "rotary", ["positions", "still"])
        for layer in range(sizes.layers):
            block = f"blk.{layer}."
            qkv = self._qkv(block, x)
            heads = self.op(
                "SegmentAttention",
                block + "attention",
                [qkv, rotary, "offsets"],
                num_heads=sizes.heads,
                num_kv_heads=sizes.heads,
                head_dim=sizes.head_dim,
                scale=1 / math.sqrt(sizes.head_dim),
            )
            mixed = self._linear(block + "attn_output", heads, sizes.hidden, sizes.hidden, residual=x)
            x = self._norm(block + "attn_output_norm", mixed)
            up = self._linear(block + "ffn_up", x, sizes.ffn, sizes.hidden)
            active = self.op("Activate", block + "ffn_active", [up], function=sizes.activation)
            down = self._linear(block + "ffn_down", active, sizes.hidden, sizes.ffn, residual=x)
            x = self._norm(block + "layer_output_norm", down)
        return x

    def _embedded(self) -> str:
        sizes = self.sizes
        table = self.matrix("token_embd.weight", sizes.vocab, sizes.hidden)
        words = self.op("QuantEmbedding", "words", ["tokens", table], **self.table(table), scale=1.0, alone=1)
        if sizes.types == 1:
            if not self.tensors.has("token_types.weight"):
                return words
            one = self.tensors.array("token_types.weight", (1, sizes.hidden)).values
            self.model.weights["token_type"] = VectorWeight(one.reshape(-1))
            return self.op("Add", "typed_words", [words, "token_type"], domain="")
        table = self.matrix("token_types.weight", sizes.types, sizes.hidden)
        facts = {**self.table(table), "scale": 1.0, "alone": 0}
        types = self.op("QuantEmbedding", "of_types", ["types", table], **facts)
        return self.op("Add", "typed_words", [words, types], domain="")

    def _places(self) -> str:
        sizes, name = self.sizes, "position_embd.weight"
        part = Part(name, sizes.first_position, sizes.positions)
        table = self.matrix(name, sizes.context, sizes.hidden, part)
        facts = {**self.table(table), "scale": 1.0, "alone": 0}
        return self.op("QuantEmbedding", "places", ["positions", table], **facts)

    def _qkv(self, block: str, x: str) -> str:
        hidden, names = self.sizes.hidden, [f"{block}attn_{part}" for part in "qkv"]
        bias = f"{block}attn_qkv.bias"
        if self.tensors.has(f"{block}attn_qkv.weight"):
            return self._linear(f"{block}attn_qkv", x, 3 * hidden, hidden)
        biases = [self.tensors.vector(f"{name}.bias", hidden).values for name in names]
        self.model.weights[bias] = VectorWeight(np.concatenate(biases))
        matrices = [self.matrix(f"{name}.weight", hidden, hidden) for name in names]
        return self.products(f"{block}attn_qkv", x, matrices, bias=bias, terms=self.terms)

    def _linear(self, name: str, x: str, rows: int, cols: int, residual: str = "") -> str:
        matrix, bias = self.matrix(f"{name}.weight", rows, cols), self.vector(f"{name}.bias", rows)
        return self.products(name, x, [matrix], bias=bias, residual=residual, terms=self.terms)

    def _norm(self, name: str, x: str, added: str = "") -> str:
        weights = [self.vector(f"{name}.{part}", self.sizes.hidden) for part in ("weight", "bias")]
        inputs = [x, *weights, *([added] if added else [])]
        return self.op("LayerNorm", name, inputs, epsilon=self.sizes.epsilon)
