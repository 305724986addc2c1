"""Builds the graph of a decoder of any architecture, one op a step; the passes then fuse it."""

from __future__ import annotations

import numpy as np

from edgedec.export import recurrent
from edgedec.export.blocks.attention import attention
from edgedec.export.blocks.base import BlockBuilder, softcap
from edgedec.export.blocks.delta import gated_delta
from edgedec.export.blocks.experts import experts, mlp_and_experts, with_shared_expert
from edgedec.export.blocks.head_rows import asked_among, first_asked, from_first
from edgedec.export.blocks.mlp import gated_mlp
from edgedec.export.blocks.per_layer import add_per_layer, per_layer_inputs
from edgedec.export.blocks.rotary import rotary_tables
from edgedec.export.blocks.short_conv import short_conv
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.interface import HEAD_K, graph_inputs, graph_outputs
from edgedec.export.model import ATTENTION, ExportModel, VectorWeight
from edgedec.export.nextn import nextn_tensors
from edgedec.export.tensors import Tensors


def build_graph(hyper: Hyperparameters, tensors: Tensors) -> ExportModel:
    """Build the unfused graph of a decoder; weights stay in the file.

    Raises BadFileError or UnsupportedError.
    """
    return DecoderBuilder(hyper, tensors).build()


class DecoderBuilder(BlockBuilder):
    """Builds all layers of a decoder."""

    def __init__(self, hyper: Hyperparameters, tensors: Tensors, model: ExportModel | None = None) -> None:
        self.vocab = tensors.rows_of("token_embd.weight")
        model = model or ExportModel(graph_inputs(hyper), graph_outputs(self.vocab))
        super().__init__(model, tensors, hyper)

    def whole_texts(self, both_ways: bool) -> str:
        """Add all layers in a graph over whole texts, and return the hidden states behind the last norm."""
        hyper, self.both_ways = self.hyper, both_ways
        table = self.matrix("token_embd.weight", self.vocab, hyper.hidden)
        lookup = {**self.table(table), "scale": hyper.embedding_scale, "alone": 1}
        x = self.op("QuantEmbedding", "embedding", ["tokens", table], **lookup)
        for layer, rotary in enumerate(rotary_tables(self)):
            x = self.layer(layer, x, rotary, "")
        return self.norm(self.arch.last_norm, x)

    def build(self) -> ExportModel:
        hyper = self.hyper
        table = self.matrix("token_embd.weight", self.vocab, hyper.hidden)
        tied = not self.tensors.has("output.weight")
        lookup = {**self.table(table), "scale": hyper.embedding_scale, "alone": int(not tied)}
        x = self.op("QuantEmbedding", "embedding", ["tokens", table], **lookup)
        own = per_layer_inputs(self, x) if hyper.per_layer else [""] * hyper.layers
        rows = "rows"
        for layer, rotary in enumerate(rotary_tables(self)):
            if layer == hyper.own:
                first_asked(self)
                rows, x = asked_among(self), from_first(self, "from_first", x)
            mine = own[layer]
            if mine and layer >= hyper.own:
                mine = from_first(self, f"{mine}.from_first", mine)
            x = self.layer(layer, x, rotary, mine)
        x = self.op("Gather", "selected", [x, rows], domain="", axis=0)
        x = self.norm(self.arch.last_norm, x, 1 / hyper.logit_scale)
        head = table if tied else self.matrix("output.weight", self.vocab, hyper.hidden)
        cap = softcap(hyper.final_softcap)
        attrs = {**self.table(head), "k": min(HEAD_K, self.vocab), "refine": 1, **cap}
        outputs = [value.name for value in self.model.outputs]
        self.defaults()
        self.node("HeadTopK", "head", [x, head, "want_logits", "", "temperature"], outputs, **attrs)
        foreign = [name for name in self.tensors.names() if name.startswith(self.arch.foreign)]
        self.tensors.leave([*foreign, *nextn_tensors(hyper, self.tensors.names())])
        self.tensors.require_all_taken()
        return self.model

    def defaults(self) -> None:
        """Add the inputs that a caller may leave out: weights that hold their default values."""
        self.model.weights["temperature"] = VectorWeight(np.ones(1, dtype=np.float32))
        whole = self.hyper.keys_of(local=False)
        if whole.layers:
            nothing = np.empty((whole.layers, whole.kv_heads, 0), dtype=np.float32)
            self.model.weights[ATTENTION] = VectorWeight(nothing)

    def layer(self, layer: int, x: str, rotary: str, own: str) -> str:
        """Add a layer; ``own`` are its numbers of a per-layer embedding, "" where there is none."""
        hyper, block = self.hyper, f"blk.{layer}."
        mixed = self.mixer(layer, self.norm(block + "attn_norm", x, hyper.residual_scale), rotary)
        if self.arch.post_norms:
            mixed = self.norm(block + "post_attention_norm", mixed)
        x = self.op("Add", block + "after_attention", [x, mixed], domain="")
        normed = self.norm(block + self.arch.mlp_norm, x)
        if not hyper.has_experts(layer):
            mlp = gated_mlp(self, block, normed, hyper.ffn_of(layer))
        elif self.arch.experts and self.arch.experts.beside:
            mlp = mlp_and_experts(self, block, x, normed, hyper.ffn_of(layer))
        else:
            x = with_shared_expert(self, block, normed, x)
            mlp = experts(self, block, normed)
        if self.arch.post_norms:
            mlp = self.norm(block + "post_ffw_norm", mlp)
        return self.end(layer, [x, mlp], own)

    def end(self, layer: int, parts: list[str], own: str) -> str:
        """Add what comes behind the MLP: the sum, the per-layer embedding, and the factor of the layer."""
        block = f"blk.{layer}."
        factor = block + "layer_output_scale.weight"
        scaled = self.arch.sizes_by_layer and self.tensors.has(factor)
        last = block + ("unscaled" if scaled else "out")
        x = self.op("Add", block + "after_mlp" if own else last, parts, domain="")
        if own:
            x = add_per_layer(self, layer, x, own, last)
        return self.op("Mul", block + "out", [x, self.vector(factor, 1)], domain="") if scaled else x

    def mixer(self, layer: int, x: str, rotary: str) -> str:
        """Add the part of a layer in which a token sees those before it."""
        match self.hyper.mixer(layer):
            case recurrent.DELTA:
                return gated_delta(self, layer, x)
            case recurrent.CONV:
                return short_conv(self, layer, x)
            case _:
                return attention(self, layer, x, rotary)
