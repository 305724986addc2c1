"""Builds the graph of an MTP layer.

At position i it reads ``s``, the state of the model for token i, and ``e``, the embedding of token i + 1, and
predicts token i + 2. ``s`` is behind the model's last norm (vLLM's qwen3_5_mtp; llama.cpp's qwen35)::

    x = eh_proj @ [enorm(e); hnorm(s)]
    y = the decoder layer(x)             # attention over the positions before, with a cache of its own
    out = shared_head_norm(y)
    logits = the model's head @ out      # of the ids ``keep``; none: of all

``out`` is the ``s`` of the next drafted position. Committed tokens come as ``taps``, outputs of the model's
last layer, and the model's last norm is here once more.

Inputs: ``taps`` f32[c, d] of c committed tokens, ``states`` f32[m - c, d] of drafted ones behind them,
``tokens`` i64[m], ``positions``, ``parents``, ``length``, ``rows`` as in a model's graph, ``keep`` i64[k],
its own ``kv_cache``, and ``table`` and ``head``, the model's embedding and head, which lie in another file.
Outputs: ``out`` f32[m, d]; ``values``, ``ids``, ``logsumexp`` and ``entropy`` of the rows asked for, and
``kv_new``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from edgedec.export.blocks.attention import attention
from edgedec.export.blocks.base import BlockBuilder, softcap
from edgedec.export.blocks.experts import experts, with_shared_expert
from edgedec.export.blocks.mlp import gated_mlp
from edgedec.export.blocks.rotary import rotary_tables
from edgedec.export.builder import table_facts
from edgedec.export.draft_head.graph import layer_inputs, layer_outputs, shared_table
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.interface import HEAD_K
from edgedec.export.model import ATTENTION, ExportModel, VectorWeight
from edgedec.export.stored import GraphMatrix
from edgedec.export.tensors import Tensors

_BLOCK = "blk.0."
_TWO_TERMS = 2
"""Int8 terms of the input of eh_proj, as in heads that are trained here."""


def build_graph(
    hyper: Hyperparameters, tensors: Tensors, table: GraphMatrix, head: GraphMatrix
) -> ExportModel:
    """Build the unfused graph; ``tensors`` are those of ``MtpSource``.

    Raises BadFileError or UnsupportedError.
    """
    alone = replace(hyper, layers=1, windows=(0,), recurrent=None, nextn=0)
    return _Builder(alone, tensors, table, head).build()


class _Builder(BlockBuilder):
    def __init__(
        self, hyper: Hyperparameters, tensors: Tensors, table: GraphMatrix, head: GraphMatrix
    ) -> None:
        keep = helper.make_tensor_value_info("keep", TensorProto.INT64, ["kept"])
        own = [keep, shared_table("table", table), shared_table("head", head)]
        inputs = layer_inputs(hyper.hidden, hyper.hidden, (hyper.kv_heads, hyper.head_dim), own)
        outputs = layer_outputs(hyper.hidden, min(HEAD_K, head.rows))
        super().__init__(ExportModel(inputs, outputs), tensors, hyper)
        self.embedding, self.head = table, head

    def build(self) -> ExportModel:
        hidden = self.hyper.hidden
        read = self.norm(self.arch.last_norm, "taps")
        state = self.op("Concat", "state", [read, "states"], domain="", axis=0)
        lookup = table_facts(self.embedding)
        embedded = self.op("QuantEmbedding", "embedding", ["tokens", "table"], **lookup, scale=1.0)
        both = [self.norm(_BLOCK + "nextn.enorm", embedded), self.norm(_BLOCK + "nextn.hnorm", state)]
        joined = self.op("Concat", "both", both, domain="", axis=1)
        x = self.linear(_BLOCK + "nextn.eh_proj", joined, (hidden, 2 * hidden), terms=_TWO_TERMS)
        self.layer(x)
        self.predict()
        self.tensors.require_all_taken()
        return self.model

    def layer(self, x: str) -> None:
        (rotary,) = rotary_tables(self)
        self.model.weights[ATTENTION] = VectorWeight(np.empty((1, self.hyper.kv_heads, 0), np.float32))
        mixed = attention(self, 0, self.norm(_BLOCK + "attn_norm", x), rotary)
        x = self.op("Add", _BLOCK + "after_attention", [x, mixed], domain="")
        normed = self.norm(_BLOCK + self.arch.mlp_norm, x)
        if self.hyper.experts:
            x = with_shared_expert(self, _BLOCK, normed, x)
            mlp = experts(self, _BLOCK, normed)
        else:
            mlp = gated_mlp(self, _BLOCK, normed)
        y = self.op("Add", _BLOCK + "out", [x, mlp], domain="")
        weight = self.vector(_BLOCK + "nextn.shared_head_norm.weight", self.hyper.hidden)
        self.node("RMSNorm", "last_norm", [y, weight], ["out"], epsilon=self.hyper.epsilon)

    def predict(self) -> None:
        chosen = self.op("Gather", "selected", ["out", "rows"], domain="", axis=0)
        none = numpy_helper.from_array(np.zeros(1, np.int64), "no_logits")
        self.node("Constant", "no_logits", [], ["no_logits"], domain="", value=none)
        facts = table_facts(self.head) | softcap(self.hyper.final_softcap)
        facts |= {"k": min(HEAD_K, self.head.rows), "refine": 1}
        found = ["values", "ids", "logsumexp", "entropy", "logits"]
        inputs = [chosen, "head", "no_logits", "keep"]
        self.node("HeadTopK", "predict", inputs, found, **facts)
