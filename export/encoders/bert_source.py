"""Weights of a Hugging Face directory of the BERT family, by the names that they have in GGUF files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.export.calibration.search import quantise
from edgedec.export.encoders.sizes import BertSizes
from edgedec.export.fields import Fields
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.huggingface.config import check_unquantised
from edgedec.export.huggingface.shards import StoredTensor
from edgedec.kernels.packing.formats import FORMATS

TYPES = {"bert": "bert", "roberta": "roberta", "xlm-roberta": "roberta", "camembert": "roberta"}
"""Model types of config.json, and the prefix of names of tensors in models with a head."""
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
}
_NAMES = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
    "pooler.dense": "cls",
    "classifier.dense": "cls",
    "classifier.out_proj": "cls.output",
    "classifier": "cls.output",
}
_IN_LAYERS = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_LAYER = re.compile(r"encoder\.layer\.(\d+)\.(.+)\.(weight|bias)")
_FLOATS = ("position_embd.weight", "token_types.weight", "cls.weight", "cls.output.weight")
"""Matrices that keep their numbers: they are small, or every text takes a row of them."""


def read_sizes(data: Mapping[str, Any]) -> BertSizes:
    """Read config.json. Raises BadFileError or UnsupportedError."""
    fields, kind = Fields("config.json", data), str(data["model_type"])
    check_unquantised(data)
    activation = fields.text("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise UnsupportedError(f"the activation {activation[:40]!r} is not supported in a {kind} model")
    if fields.text("position_embedding_type", "absolute") != "absolute":
        raise UnsupportedError("positions relative to each other are not supported in a BERT model")
    if data.get("is_decoder"):
        raise UnsupportedError("a BERT model that is a decoder is not supported")
    roberta = TYPES[kind] == "roberta"
    return BertSizes(
        name=kind,
        vocab=fields.size("vocab_size"),
        layers=fields.layers,
        hidden=fields.size("hidden_size"),
        heads=fields.size("num_attention_heads"),
        ffn=fields.size("intermediate_size"),
        positions=fields.size("max_position_embeddings", 512),
        epsilon=fields.positive("layer_norm_eps", 1e-12),
        activation=ACTIVATIONS[activation],
        first_position=int(fields.number("pad_token_id", 1)) + 1 if roberta else 0,
        types=fields.size("type_vocab_size", 2),
        labels=label_count(fields),
    )


def label_count(fields: Fields) -> int:
    """Return the labels of a model that classifies; 0 for another."""
    if "SequenceClassification" not in str(fields.data.get("architectures")):
        return 0
    return fields.size("num_labels", len(fields.object("id2label").data) or 2)


def check_heads(sizes: BertSizes) -> None:
    """Raise UnsupportedError for heads that the kernels do not compute."""
    if sizes.hidden % sizes.heads or sizes.head_dim % 16:
        wide = f"{sizes.hidden / sizes.heads:g}"
        raise UnsupportedError(f"heads of {wide} numbers are not supported", hint="they are 16 n")


class BertSource:
    """Implements ``WeightSource``. ``formats``: of matrices, "mlp", and of the embedding, "head".

    ``named`` returns the name of a tensor in GGUF files, or "".
    """

    title = "the model"

    def __init__(
        self,
        sizes: BertSizes,
        stored: Mapping[str, StoredTensor],
        formats: Mapping[str, str],
        named: Callable[[str], str],
    ) -> None:
        self._stored: dict[str, StoredTensor] = {}
        self.tensors: dict[str, TensorInfo] = {}
        for name, tensor in stored.items():
            ours = named(name)
            # Masked words and a pooler that nothing reads belong to other tasks than ours.
            unread = not sizes.labels and ours.startswith("cls.")
            if not ours or unread or ours in self._stored:
                continue
            usual = formats["head" if ours == "token_embd.weight" else "mlp"]
            wanted = "f32" if ours in _FLOATS else usual
            kind = wanted if len(tensor.shape) == 2 and wanted in FORMATS else "f32"
            self._stored[ours] = tensor
            self.tensors[ours] = TensorInfo.unwritten(ours, tensor.shape, kind)

    def spelling(self, name: str) -> str:
        """Return the name that a tensor has in the directory, for messages."""
        return self._stored[name].name if name in self._stored else name

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        return quantise(self._stored[tensor.name].read(start, stop), tensor.format)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        return self._stored[tensor.name].read(0, tensor.shape[0]).reshape(-1)


def our_name(name: str) -> str:
    """Return the name in a GGUF file; "" for a tensor of another task."""
    for prefix in ("bert.", "roberta.", "model.", "0.auto_model."):
        name = name.removeprefix(prefix)
    if found := _LAYER.fullmatch(name):
        ours = _IN_LAYERS.get(found[2])
        return f"blk.{found[1]}.{ours}.{found[3]}" if ours else ""
    if name in _NAMES:
        return _NAMES[name]
    begin, _, end = name.rpartition(".")
    return f"{_NAMES[begin]}.{end}" if begin in _NAMES and end in ("weight", "bias") else ""
