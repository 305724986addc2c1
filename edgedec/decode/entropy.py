"""Entropy of the model's own distribution: before temperature, penalty and cuts."""

from __future__ import annotations

import math

import numpy as np

from edgedec.core.rows import HeadRows


def entropy_bits(rows: HeadRows, row: int) -> float:
    """Return the entropy in bits, at temperature 1 and over the whole vocabulary, after row ``row``.

    Raises ValueError when ``rows`` were requested without what this takes: a sum at temperature 1, or whole
    rows.
    """
    if rows.temperature == 1.0:
        return rows.entropy.item(row) / math.log(2.0)
    if rows.logits is None:
        raise ValueError(f"the head summed up at temperature {rows.temperature}, and there is no whole row")
    logits = rows.logits[row].astype(np.float64)
    logits -= logits.max()
    weights = np.exp(logits)
    total = float(weights.sum())
    return (math.log(total) - float(weights @ np.maximum(logits, -1e9)) / total) / math.log(2.0)
