"""The file in which training leaves a drafting head."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from edgedec.core.errors import BadFileError
from edgedec.export.draft_head.weights import HeadWeights
from tests.fixtures.draft_heads import random_head


@pytest.mark.parametrize("own_head", [True, False])
def test_a_saved_head_is_read_back_as_it_was(tmp_path: Path, own_head: bool) -> None:
    weights = random_head(64, 90, ids=32, own_head=own_head)
    weights.save(tmp_path / "head.npz")
    again = HeadWeights.load(tmp_path / "head.npz")
    for field in fields(HeadWeights):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(weights, field.name))


def test_a_file_that_holds_no_head_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "head.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(BadFileError, match="holds no drafting head"):
        HeadWeights.load(path)
    np.savez(path, fc=np.zeros((2, 6), np.float32))
    with pytest.raises(BadFileError, match="lacks hidden"):
        HeadWeights.load(path)


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
