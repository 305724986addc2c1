"""The temperature of one draw: fixed, or lower where the model is sure."""

from __future__ import annotations

import math

import numpy as np

from edgedec.core.errors import BackendError
from edgedec.core.rows import HeadRows
from edgedec.sampling import portable
from edgedec.sampling.params import DrawParams

_LN_BASE = math.log(0.8)
_LEAST = 1e-3
"""Temperatures below it draw as this one does: the best token, unless others are as good."""


def temperature_of(params: DrawParams, rows: HeadRows, row: int) -> float:
    """Return the temperature after row ``row``.

    With ``edt``, entropy-dependent temperature (EDT, Zhang et al. 2024), it is T * 0.8^(edt / H), for H the
    entropy in nats of the model's own distribution. Raises BackendError where ``rows`` do not have that.
    """
    if not params.edt or params.greedy:
        return params.temperature
    entropy = max(_entropy(rows, row), 1e-9)
    return max(params.temperature * portable.exp_one(params.edt / entropy * _LN_BASE), _LEAST)


def _entropy(rows: HeadRows, row: int) -> float:
    """Entropy in nats at temperature 1, over the whole vocabulary."""
    if rows.temperature == 1.0:
        return rows.entropy.item(row)
    if rows.logits is None:
        raise BackendError("the entropy at temperature 1 needs whole logits rows, and the pass returned none")
    logits = rows.logits[row].astype(np.float64)
    scaled = np.maximum(logits - logits.max(), -700.0)
    weights = portable.exp(scaled)
    total = float(np.add.accumulate(weights)[-1])
    return portable.log_one(total) - float(np.add.accumulate(weights * scaled)[-1]) / total
