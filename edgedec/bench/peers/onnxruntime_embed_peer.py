"""ONNX Runtime as a side of a comparison of encoders, by the recipe of fastembed.

It pads a batch of 256 texts to its longest, runs an encoder as optimum exports it, pools the tokens that are
no padding, and scales vectors to length 1.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

BATCH = 256


class Peer:
    def open(self, model: str, threads: int, longest: int, pooling: str, normalised: bool) -> dict[str, Any]:
        """Open ``model.onnx`` and ``tokenizer.json`` of a folder; ``longest``: tokens of a text at most."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = ort.InferenceSession(
            f"{model}/model.onnx", options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {one.name for one in self._session.get_inputs()}
        self._tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
        self._tokenizer.enable_truncation(longest)
        self._tokenizer.enable_padding()
        self._pooling, self._normalised = pooling, normalised
        return {"version": f"onnxruntime {ort.__version__}"}

    def embed(self, texts: list[str]) -> dict[str, Any]:
        """Time the vectors of all texts, in s."""
        started = time.perf_counter()
        self._all(texts)
        return {"seconds": time.perf_counter() - started}

    def vectors(self, texts: list[str]) -> dict[str, Any]:
        """Return the vector of each text."""
        return {"vectors": self._all(texts).tolist()}

    def _all(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.concatenate([self._batch(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)])

    def _batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoded = self._tokenizer.encode_batch(list(texts))
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        fed = {
            "input_ids": np.array([one.ids for one in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([one.type_ids for one in encoded], np.int64),
        }
        hidden = self._session.run(None, {name: one for name, one in fed.items() if name in self._inputs})[0]
        pooled = _pooled(np.asarray(hidden, np.float32), mask, self._pooling)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True) if self._normalised else pooled


def _pooled(hidden: NDArray[np.float32], mask: NDArray[np.int64], pooling: str) -> NDArray[np.float32]:
    if pooling != "mean":
        chosen = mask.sum(1) - 1 if pooling == "last" else np.zeros(len(hidden), np.int64)
        return np.asarray(hidden[np.arange(len(hidden)), chosen], np.float32)
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return np.asarray(mean, np.float32)
