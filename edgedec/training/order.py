"""The order of training data: batches as a function of seed, epoch and lengths, and a place in them.

Nothing here keeps state, so a run that was killed goes on with the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass

_POOL_ROLLOUTS = 256
"""Rollouts that are sorted by length together, so that little of a batch is padding."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the data: ``batch`` is the next one of epoch ``epoch``.

    ``rollouts`` is the number of training rollouts that this epoch goes through; 0: not begun. Rollouts that
    are written later wait for the next epoch, so they change no batch.
    """

    epoch: int = 0
    batch: int = 0
    rollouts: int = 0


def batches(lengths: Sequence[int], batch_tokens: int, key: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return batches of indices into ``lengths``; each index occurs once.

    ``key`` (seed, epoch) decides the order. A batch has at most ``batch_tokens`` tokens after padding to its
    longest member, or one member.
    """
    draw = np.random.default_rng(list(key))
    order = draw.permutation(len(lengths))
    found: list[NDArray[np.int64]] = []
    for start in range(0, len(order), _POOL_ROLLOUTS):
        pool = sorted(
            order[start : start + _POOL_ROLLOUTS].tolist(), key=lambda index: (lengths[index], index)
        )
        found += _cut(pool, lengths, batch_tokens)
    return [found[at] for at in draw.permutation(len(found))]


def _cut(pool: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Cut indices that ascend in length into batches."""
    found, batch = [], list[int]()
    for index in pool:
        if batch and lengths[index] * (len(batch) + 1) > batch_tokens:
            found.append(np.array(batch, dtype=np.int64))
            batch = []
        batch.append(index)
    return [*found, np.array(batch, dtype=np.int64)] if batch else found


def following(
    lengths: Sequence[int], batch_tokens: int, seed: int, place: Place
) -> Iterator[tuple[NDArray[np.int64], Place]]:
    """Yield batches from ``place`` on without an end, each with the place after it.

    ``lengths`` may grow meanwhile. Raises ValueError when it has fewer entries than the epoch began with, or
    none.
    """
    while True:
        count = place.rollouts or len(lengths)
        if not 0 < count <= len(lengths):
            raise ValueError(f"{len(lengths)} rollouts, where training went through {count}")
        epoch = batches(lengths[:count], batch_tokens, (seed, place.epoch))
        for number in range(place.batch, len(epoch)):
            last = number + 1 == len(epoch)
            place = Place(place.epoch + 1) if last else Place(place.epoch, number + 1, count)
            yield epoch[number], place
