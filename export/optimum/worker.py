"""Runs optimum on a model directory: ``python -P -m edgedec.export.optimum.worker SOURCE OUT``.

Writes OUT/model.onnx and checks that its results agree with the model's. Writes OUT/facts.json: facts that
only the loaded model knows, or an ``error``. It is a process of its own, so that torch's memory and warnings
end with it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FACTS = "facts.json"
GRAPH = "model.onnx"
TASK = "text-generation-with-past"
OPSET = 18
"""Lowest opset that has the ops of the head in their present form; optimum is tested with it."""
TOLERANCE = 1e-3
"""Largest allowed difference of a logit, relative to the largest logit.

Float32 sums in another order differ by far less.
"""
_PASSES = (1, 5, 1, 1)
_CHECKED = 48


def main(source: Path, out: Path) -> None:
    """Export and check; an exception becomes the ``error`` in facts.json."""
    try:
        facts = convert(source, out)
    except Exception as error:  # optimum, transformers and torch raise anything
        facts = {"error": f"{type(error).__name__}: {error}"}
    (out / FACTS).write_text(json.dumps(facts), encoding="utf-8", newline="\n")


def convert(source: Path, out: Path) -> dict[str, Any]:
    """Export the model of ``source`` and return facts about it.

    Raises ValueError when the graph is wrong, and any error of torch, transformers or optimum.
    """
    import torch
    from optimum.exporters.onnx import onnx_export_from_model
    from transformers import AutoModelForCausalLM

    options = {"torch_dtype": torch.float32, "local_files_only": True, "use_safetensors": True}
    model, loading = AutoModelForCausalLM.from_pretrained(source, output_loading_info=True, **options)
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(f"the model lacks tensor {missing[0]}")
    model.eval()
    model.config.use_cache = True
    context = _context(model.config)
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, model.config.vocab_size, min(_CHECKED, context))
    with torch.no_grad():
        expected = model(torch.from_numpy(tokens)[None]).logits[0].float().numpy()
    onnx_export_from_model(model=model, output=out, opset=OPSET, task=TASK, do_validation=False)
    error = difference(out / GRAPH, tokens, expected)
    if not error <= TOLERANCE:
        raise ValueError(f"the exported graph does not agree with the model ({error:.1e} off)")
    return {
        "heads": model.config.num_attention_heads,
        "hidden": model.config.hidden_size,
        "vocab": expected.shape[1],
        "context": context,
        "difference": error,
    }


def _context(config: Any) -> int:
    """Return the longest context, in tokens, for which a graph traced on a short text is correct."""
    names = ("max_position_embeddings", "max_seq_len", "seq_length", "n_positions")
    sizes = [size for name in names if (size := getattr(config, name, None))]
    most = int(sizes[0]) if sizes else 2048
    rope: dict[str, Any] = getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type")) in ("longrope", "su"):  # longer contexts: other frequencies
        original: Any = rope.get("original_max_position_embeddings")
        most = min(most, int(original or getattr(config, "original_max_position_embeddings", most)))
    return most


def difference(path: Path, tokens: NDArray[np.int64], expected: NDArray[np.float32]) -> float:
    """Return the largest |logit - expected| over passes of several sizes.

    It is relative to the largest entry of ``expected`` f32[T, V].
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    cache = {
        node.name: np.zeros((1, *node.shape[1:2], 0, *node.shape[3:]), dtype=np.float32)
        for node in session.get_inputs()
        if node.name.startswith("past_key_values.")
    }
    asked = {node.name for node in session.get_inputs()}
    got, start = [], 0
    for size in (*_PASSES, len(tokens)):
        end = min(start + size, len(tokens))
        if end == start:
            break
        feeds = {
            "input_ids": tokens[None, start:end],
            "attention_mask": np.ones((1, end), dtype=np.int64),
            "position_ids": np.arange(start, end)[None],
        }
        feeds = {name: array for name, array in feeds.items() if name in asked}
        results = dict(zip(names, session.run(names, feeds | cache), strict=True))
        got.append(results["logits"][0])
        cache = {name: results[name.replace("past_key_values", "present")] for name in cache}
        start = end
    return float(np.abs(np.concatenate(got) - expected).max() / np.abs(expected).max())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
