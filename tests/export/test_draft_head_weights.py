"""Arrays and sizes of a drafting head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgedec.core.errors import BadFileError
from edgedec.export.draft_head.weights import HeadWeights
from tests.fixtures.draft_heads import random_head


def test_a_head_without_its_sizes_is_refused() -> None:
    with pytest.raises(BadFileError, match="lacks hidden"):
        HeadWeights.of({"fc": np.zeros((2, 6), np.float32)})


def test_arrays_that_cannot_be_right_are_refused() -> None:
    weights = random_head(64, 90, ids=32)
    with pytest.raises(BadFileError, match="fc of the drafting head has shape"):
        replace(weights, fc=weights.fc[:-1])
    with pytest.raises(BadFileError, match="not finite"):
        replace(weights, ffn_norm=np.full(64, np.nan, np.float32))
    with pytest.raises(BadFileError, match="do not ascend"):
        replace(weights, keep=weights.keep[::-1].copy())
    with pytest.raises(BadFileError, match="impossible size"):
        replace(weights, ffn=0)
    with pytest.raises(BadFileError, match="sizes of the drafting head"):
        replace(weights, heads=3)
