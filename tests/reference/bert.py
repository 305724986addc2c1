"""BERT in NumPy and float64: hidden states of one text, or of a pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Tensors = Mapping[str, NDArray[np.float32]]
_ERF = np.vectorize(math.erf)


def hidden_states(
    tensors: Tensors, config: Mapping[str, Any], ids: Sequence[int], types: Sequence[int]
) -> F64:
    """Return f64[tokens, hidden]. Source: Devlin et al. (2018)."""
    found = {
        name.removeprefix("bert.").removeprefix("roberta."): one.astype(np.float64)
        for name, one in tensors.items()
    }
    first = config.get("pad_token_id", 1) + 1 if config["model_type"] != "bert" else 0
    words, places, kinds = (
        found[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    x = words[list(ids)] + places[first : first + len(ids)] + kinds[list(types)]
    x = _norm(found, "embeddings.LayerNorm", x, config)
    heads = config["num_attention_heads"]
    for layer in range(config["num_hidden_layers"]):
        begin = f"encoder.layer.{layer}."
        q, k, v = (
            _linear(found, f"{begin}attention.self.{part}", x).reshape(len(x), heads, -1)
            for part in ("query", "key", "value")
        )
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[2])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, v).reshape(len(x), -1)
        added = x + _linear(found, f"{begin}attention.output.dense", mixed)
        x = _norm(found, f"{begin}attention.output.LayerNorm", added, config)
        up = _linear(found, f"{begin}intermediate.dense", x)
        active = 0.5 * up * (1 + _ERF(up / math.sqrt(2)))
        added = x + _linear(found, f"{begin}output.dense", active)
        x = _norm(found, f"{begin}output.LayerNorm", added, config)
    return x


def _linear(found: Mapping[str, F64], name: str, x: F64) -> F64:
    return x @ found[f"{name}.weight"].T + found[f"{name}.bias"]


def _norm(found: Mapping[str, F64], name: str, x: F64, config: Mapping[str, Any]) -> F64:
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(-1, keepdims=True) + config["layer_norm_eps"])
    return centred / scale * found[f"{name}.weight"] + found[f"{name}.bias"]
