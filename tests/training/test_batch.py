"""Batches hold the target's guesses over the kept ids, and mask what a head cannot say."""

from __future__ import annotations

import numpy as np

from edgedec.training.batch import KeptIds, batch_of
from edgedec.training.features import BEST, Features

KEEP = np.array([2, 3, 5, 7, 11], dtype=np.int64)


def text(tokens: list[int], ids: list[list[int]], probs: list[list[float]]) -> Features:
    pad = [[0] * (BEST - len(row)) for row in ids]
    table = np.array([[*row, *more] for row, more in zip(ids, pad, strict=True)], dtype=np.int32)
    chances = np.array([[*row, *([1e-9] * (BEST - len(row)))] for row in probs])
    return Features(
        np.array(tokens, dtype=np.int32),
        np.full((len(tokens), 6), len(tokens), dtype=np.float16),
        table,
        np.log(chances).astype(np.float16),
    )


def test_probabilities_are_those_of_kept_ids_and_add_up_to_one() -> None:
    batch = batch_of(
        [text([1, 2, 3], [[5, 4, 2], [3, 9, 8]], [[0.5, 0.3, 0.1], [0.7, 0.2, 0.1]])], KeptIds(KEEP, 20)
    )
    row = batch.probs[0, 1]
    assert batch.places[0, 1, :3].tolist() == [2, 0, 0]
    np.testing.assert_allclose(row[:3], [0.5 / 0.6, 0.0, 0.1 / 0.6], atol=2e-3)
    np.testing.assert_allclose(batch.probs[0, 1:].sum(axis=1), 1.0, atol=1e-5)


def test_rows_whose_best_token_is_not_kept_are_masked_and_so_are_prompts_and_padding() -> None:
    first = text([1, 2, 3, 4], [[4, 5], [5, 4]], [[0.6, 0.3], [0.6, 0.3]])
    second = text([1, 2], [[7, 2]], [[0.9, 0.05]])
    batch = batch_of([first, second], KeptIds(KEEP, 20))
    assert batch.taught.tolist() == [[False, False, False, True], [False, True, False, False]]
    assert batch.tokens.tolist() == [[1, 2, 3, 4], [1, 2, 0, 0]]
    assert batch.hidden[1, :2].tolist() == [[2.0] * 6] * 2
    assert not batch.hidden[1, 2:].any()
    assert batch.size == 8
    assert batch.first == 1
