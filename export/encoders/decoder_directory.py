"""Directories of decoders that make vectors (Qwen3-Embedding, EmbeddingGemma) or rank (Qwen3-Reranker)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.embedding_facts import EmbeddingFacts
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.export.calibration.search import quantise
from edgedec.export.encoders.decoder import TextDecoder
from edgedec.export.encoders.ends import DIFFERENCE, Dense, Ends
from edgedec.export.encoders.sentence import MODULES, SentenceFacts
from edgedec.export.fields import Fields
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.huggingface.config import read_config
from edgedec.export.huggingface.files import read_object, read_text
from edgedec.export.huggingface.shards import SINGLE, StoredTensor, read_shards, weight_files
from edgedec.export.huggingface.source import HuggingFaceSource
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.model import ExportModel
from edgedec.export.source import WeightSource
from edgedec.export.tensors import Tensors

_RANKER = "# Qwen3-Reranker"
"""Title of the model card; nothing else in such a directory says what it is for."""
_ANSWERS = ("no", "yes")
RANKING = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n',
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
    "<Query>: {query}\n<Document>: {document}",
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
)
"""The prompt of Qwen3-Reranker, as its model card has it."""
_ACTIVATIONS = {
    "Identity": "",
    "Tanh": "tanh",
    "GELU": "gelu",
    "ReLU": "relu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
}
Read = tuple[WeightSource, ExportModel, ModelSpec, EmbeddingFacts]


def ranks(source: Path) -> bool:
    """Return whether a directory is one of Qwen3-Reranker."""
    card = read_text(source / "README.md") or ""
    return any(line.startswith(_RANKER) for line in card.splitlines())


def read_decoder(
    source: Path, config: Mapping[str, Any], sentence: SentenceFacts, formats: Mapping[str, str], text: str
) -> Read:
    """Return weights, graph and facts; ``text``: that of tokenizer.json.

    Raises BadFileError or UnsupportedError.
    """
    both_ways = config.get("use_bidirectional_attention") is True
    read = read_config({key: value for key, value in config.items() if key != "use_bidirectional_attention"})
    hyper = read_hyperparameters(read.architecture, read.metadata)
    stored = {_full(name): one for name, one in read_shards(weight_files(source)).items()}
    weights = DenseSource(HuggingFaceSource(source, read, stored, formats))
    pair: tuple[str, ...] = ()
    if (source / MODULES).is_file():
        dense = [weights.add(source / folder, at) for at, folder in enumerate(sentence.dense)]
        ends, size = Ends(sentence.pooling, dense, sentence.normalised), hyper.hidden
        size = dense[-1].rows if dense else size
    else:
        if not read.tied:
            raise UnsupportedError("a reranker whose head is not its embedding is not supported")
        order = _answer_ids(text)
        chosen = Dense("answers", 2, hyper.hidden, bias=False, activation=DIFFERENCE, order=order,
                       tensor="token_embd.weight", height=read.vocab)  # fmt: skip
        ends, size, pair = Ends("last", [chosen], normalised=False), 1, RANKING
    decoder = TextDecoder(hyper, both_ways, ends, size)
    facts = EmbeddingFacts(
        size, ends.pooling, ends.normalised, decoder.token_numbers, bool(pair), sentence.prompts or {},
        sentence.default, pair,
    )  # fmt: skip
    spec = decoder.spec("decoder", read.vocab, sentence.longest)
    return weights, decoder.graph(Tensors(weights)), spec, facts


class DenseSource:
    """Implements ``WeightSource``: weights of a decoder, and of linears behind its pooling, in float32."""

    title = "the model"

    def __init__(self, decoder: HuggingFaceSource) -> None:
        self._decoder = decoder
        self._stored: dict[str, StoredTensor] = {}
        self.tensors: dict[str, TensorInfo] = dict(decoder.tensors)

    def add(self, folder: Path, number: int) -> Dense:
        """Add the linear in a folder. Raises BadFileError or UnsupportedError."""
        config = Fields(f"{folder.name}/config.json", read_object(folder / "config.json", required=True))
        kind = config.text("activation_function", "Tanh").rpartition(".")[2]
        if kind not in _ACTIVATIONS:
            raise UnsupportedError(f"the activation {kind[:40]!r} of {folder.name} is not supported")
        name = f"dense_{number}"
        for key, tensor in read_shards([folder / SINGLE]).items():
            ours = f"{name}.{key.rpartition('.')[2]}"
            self._stored[ours] = tensor
            self.tensors[ours] = TensorInfo.unwritten(ours, tensor.shape, "f32")
        return Dense(
            name, config.size("out_features"), config.size("in_features"), f"{name}.bias" in self._stored,
            _ACTIVATIONS[kind],
        )  # fmt: skip

    def spelling(self, name: str) -> str:
        """See ``WeightSource``."""
        return self._stored[name].name if name in self._stored else self._decoder.spelling(name)

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        if tensor.name in self._stored:
            return quantise(self._stored[tensor.name].read(start, stop), tensor.format)
        return self._decoder.rows(tensor, start, stop)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        if tensor.name in self._stored:
            return self._stored[tensor.name].read(0, tensor.shape[0])
        return self._decoder.vector(tensor)


def _full(name: str) -> str:
    """Return the name that a tensor has in a model with a head; plain models lack its begin."""
    begins = ("model.", "lm_head.", "language_model.")
    return name if name.startswith(begins) else f"model.{name}"


def _answer_ids(text: str) -> tuple[int, ...]:
    vocab = json.loads(text).get("model", {}).get("vocab", {})
    found = tuple(vocab.get(word) for word in _ANSWERS)
    if any(not isinstance(one, int) for one in found):
        raise BadFileError("the tokenizer of the reranker has no tokens for yes and no")
    return found
