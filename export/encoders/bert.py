"""The graph of the BERT family: MiniLM, BGE, E5, ModernBERT, NomicBERT and others, and rerankers of it.

Every layer is attention and an MLP, each with a sum and a layer norm behind it, or before it. Sources: Devlin
et al. (2018); Warner et al., "Smarter, Better, Faster, Longer" (2024), whose layers see a window or all
tokens by turns; Nussbaum et al., "Nomic Embed" (2024).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.export.blocks.rotary import inverse_frequencies
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
        places = "" if sizes.rotations else self._places()
        x = self._norm("token_embd_norm", self._embedded(), added=places)
        tables = self._rotary_tables()
        for layer in range(sizes.layers):
            rotary = tables[bool(sizes.rotations and sizes.rotations.is_local(layer))]
            x = (self._norms_first if sizes.norms_first else self._norms_last)(layer, x, rotary)
        return self._norm("output_norm", x) if sizes.norms_first else x

    def _norms_last(self, layer: int, x: str, rotary: str) -> str:
        sizes, block = self.sizes, f"blk.{layer}."
        heads = self._attention(layer, x, rotary)
        mixed = self._linear(block + "attn_output", heads, sizes.hidden, sizes.hidden, residual=x)
        x = self._norm(block + "attn_output_norm", mixed)
        down = self._linear(block + "ffn_down", self._active(block, x), sizes.hidden, sizes.ffn, residual=x)
        return self._norm(block + "layer_output_norm", down)

    def _norms_first(self, layer: int, x: str, rotary: str) -> str:
        sizes, block = self.sizes, f"blk.{layer}."
        # The norm behind the embedding is that of the first layer.
        heads = self._attention(layer, self._norm(block + "attn_norm", x) if layer else x, rotary)
        x = self._linear(block + "attn_output", heads, sizes.hidden, sizes.hidden, residual=x)
        active = self._active(block, self._norm(block + "ffn_norm", x))
        return self._linear(block + "ffn_down", active, sizes.hidden, sizes.ffn, residual=x)

    def _rotary_tables(self) -> list[str]:
        """Return the table of layers that see all tokens, and that of layers with a window."""
        rotations, dim = self.sizes.rotations, self.sizes.head_dim
        if rotations is None:
            # Positions are in the embedding: attention rotates nothing.
            return [self._rotary("rotary", np.zeros(dim // 2, np.float32))]
        tables = [self._rotary("rotary", inverse_frequencies(rotations.base, dim))]
        if any(rotations.local):
            tables.append(self._rotary("rotary_local", inverse_frequencies(rotations.local_base, dim)))
        return tables

    def _rotary(self, name: str, frequencies: NDArray[np.float32]) -> str:
        self.model.weights[f"{name}.inv_freq"] = VectorWeight(frequencies)
        return self.op("RotaryTable", name, ["positions", f"{name}.inv_freq"])

    def _attention(self, layer: int, x: str, rotary: str) -> str:
        sizes, block = self.sizes, f"blk.{layer}."
        seen: dict[str, Any] = {}
        if sizes.rotations and sizes.rotations.is_local(layer):
            seen = {"before": sizes.rotations.window, "after": sizes.rotations.window}
        return self.op(
            "SegmentAttention",
            block + "attention",
            [self._qkv(block, x), rotary, "offsets"],
            num_heads=sizes.heads,
            num_kv_heads=sizes.heads,
            head_dim=sizes.head_dim,
            scale=1 / math.sqrt(sizes.head_dim),
            **seen,
        )

    def _active(self, block: str, x: str) -> str:
        """Add the first linear of an MLP, or both, and the activation."""
        sizes = self.sizes
        if not sizes.gated:
            up = self._linear(block + "ffn_up", x, sizes.ffn, sizes.hidden)
            return self.op("Activate", block + "ffn_active", [up], function=sizes.activation)
        name = f"{block}ffn_up.weight"
        if self.tensors.has(f"{block}ffn_gate.weight"):
            gate, up = (
                self.matrix(f"{block}ffn_{one}.weight", sizes.ffn, sizes.hidden) for one in ("gate", "up")
            )
        else:  # one tensor has both, the gate first
            parts = [Part(name, at * sizes.ffn, 2 * sizes.ffn) for at in (0, 1)]
            gate, up = (
                self.matrix(f"{name}.{at}", sizes.ffn, sizes.hidden, part) for at, part in enumerate(parts)
            )
        gated, factor = (self.products(f"{one}.product", x, [one], terms=self.terms) for one in (gate, up))
        return self.op("Activate", block + "ffn_active", [gated, factor], function=sizes.activation)

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
        if self._lacks_bias(f"{names[0]}.bias"):
            bias = ""
        else:
            biases = [self.tensors.vector(f"{name}.bias", hidden).values for name in names]
            self.model.weights[bias] = VectorWeight(np.concatenate(biases))
        matrices = [self.matrix(f"{name}.weight", hidden, hidden) for name in names]
        return self.products(f"{block}attn_qkv", x, matrices, bias=bias, terms=self.terms)

    def _linear(self, name: str, x: str, rows: int, cols: int, residual: str = "") -> str:
        matrix, bias = self.matrix(f"{name}.weight", rows, cols), self._bias(name, rows)
        return self.products(name, x, [matrix], bias=bias, residual=residual, terms=self.terms)

    def _norm(self, name: str, x: str, added: str = "") -> str:
        hidden = self.sizes.hidden
        inputs = [x, self.vector(f"{name}.weight", hidden), self._bias(name, hidden), added]
        while not inputs[-1]:
            inputs.pop()
        return self.op("LayerNorm", name, inputs, epsilon=self.sizes.epsilon)

    def _bias(self, name: str, size: int) -> str:
        """Add a bias, and return its name; "" where the model has none there."""
        bias = f"{name}.bias"
        return "" if self._lacks_bias(bias) else self.vector(bias, size)

    def _lacks_bias(self, bias: str) -> bool:
        # Models with a position table have all biases, and others those that their files hold.
        return self.sizes.rotations is not None and not self.tensors.has(bias)
