"""Tiny models with random weights, as transformers saves them and sentence-transformers describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.fixtures.tiny_bert import SPECIAL, WORDS, tokenizer_json

SIZES: dict[str, Any] = {
    "vocab_size": len(SPECIAL) + len(WORDS),
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}


def describe(
    directory: Path,
    *,
    pooling: str = "lasttoken",
    dense: Sequence[tuple[int, int, str]] = (),
    prompts: Mapping[str, str] | None = None,
) -> list[NDArray[np.float32]]:
    """Add the tokenizer and what comes behind the transformer; return the weights of the linears."""
    rng, made = np.random.default_rng(9), []
    kinds = ["Transformer", "Pooling", *["Dense"] * len(dense), "Normalize"]
    places = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{at}_{kind}" if at else ""}
        for at, kind in enumerate(kinds)
    ]
    files: dict[str, Any] = {
        "tokenizer.json": tokenizer_json(),
        "modules.json": places,
        "1_Pooling/config.json": {f"pooling_mode_{pooling}": True, "include_prompt": True},
        "config_sentence_transformers.json": {"prompts": dict(prompts or {})},
    }
    for at, (cols, rows, function) in enumerate(dense, 2):
        weight = (rng.standard_normal((rows, cols)) * 0.2).astype(np.float32)
        (directory / f"{at}_Dense").mkdir()
        save_file({"linear.weight": weight}, directory / f"{at}_Dense/model.safetensors")
        files[f"{at}_Dense/config.json"] = {
            "in_features": cols, "out_features": rows, "bias": False, "activation_function": function,
        }  # fmt: skip
        made.append(weight)
    (directory / "1_Pooling").mkdir(exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
    return made
