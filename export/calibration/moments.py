"""Measures the mean squares of the inputs of each matrix on a sample of text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from edgedec.core.errors import UsageError
from edgedec.core.progress import Steps
from edgedec.export.calibration.evaluate import F32, Floats, evaluate
from edgedec.export.model import ExportModel, PackedWeight

TOKENS, WINDOW = 4096, 512
"""Most tokens of the text that are used, and tokens of a window."""
_LEAST = 64
SAMPLE = Path(__file__).with_name("sample.txt")
"""Text that is read where none is given."""

Moments = dict[str, NDArray[np.float64]]
"""Mean squares f64[K] of the inputs, by the name of the tensor."""


def sample(text: str, tokenizer_json: str, bos: int | None, context: int) -> list[list[int]]:
    """Return windows of tokens, spread evenly over ``text``, each begun with ``bos`` if there is one.

    Raises UsageError when the text is too short.
    """
    ids = Tokenizer.from_str(tokenizer_json).encode(text, add_special_tokens=False).ids
    if len(ids) < _LEAST:
        raise UsageError(
            f"the calibration text has {len(ids)} tokens", hint=f"at least {_LEAST}, better {TOKENS}"
        )
    head = [] if bos is None else [bos]
    size = min(WINDOW, context) - len(head)
    count = min(-(-len(ids) // size), max(TOKENS // size, 1))
    starts = np.linspace(0, max(len(ids) - size, 0), count).astype(int).tolist()
    return [head + ids[start : start + size] for start in starts]


def second_moments(
    model: ExportModel,
    floats: Floats,
    windows: Sequence[Sequence[int]],
    progress: Steps,
) -> Moments:
    """Measure the inputs of every matrix; arguments are those of ``evaluate``.

    A tensor that holds several matrices gets the mean over the inputs of all.
    """
    sums: dict[str, tuple[NDArray[np.float64], int]] = {}

    def watch(weight: PackedWeight, x: F32) -> None:
        squares = np.einsum("tk,tk->k", x, x, dtype=np.float64)
        before, count = sums.get(weight.tensor.name, (np.zeros_like(squares), 0))
        sums[weight.tensor.name] = before + squares, count + len(x)

    evaluate(model, floats, windows, watch, progress)
    return {name: total / count for name, (total, count) in sums.items()}
