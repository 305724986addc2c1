"""The order of training data follows from seed, epoch and place alone."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from edgedec.training.order import Place, batches, following

LENGTHS = [int(length) for length in np.random.default_rng(3).integers(5, 300, 700)]


def taken(place: Place, count: int, lengths: list[int] = LENGTHS) -> tuple[list[list[int]], Place]:
    found = []
    for indices, after in islice(following(lengths, 1000, 7, place), count):
        found.append(indices.tolist())
        place = after
    return found, place


def test_every_rollout_occurs_once_in_an_epoch() -> None:
    epoch = batches(LENGTHS, 1000, (7, 0))
    assert sorted(index for batch in epoch for index in batch) == list(range(len(LENGTHS)))


def test_batches_fit_their_tokens_after_padding() -> None:
    for batch in batches(LENGTHS, 1000, (7, 0)):
        assert max(LENGTHS[index] for index in batch) * len(batch) <= 1000


def test_little_of_a_batch_is_padding() -> None:
    epoch = batches(LENGTHS, 1000, (7, 0))
    padded = sum(max(LENGTHS[index] for index in batch) * len(batch) for batch in epoch)
    assert padded < 1.1 * sum(LENGTHS)


def test_a_rollout_longer_than_a_batch_has_one_of_its_own() -> None:
    assert [batch.tolist() for batch in batches([5000], 1000, (0, 0))] == [[0]]


def test_epochs_and_seeds_differ_and_the_same_ones_do_not() -> None:
    first, again, later, other = (
        [batch.tolist() for batch in batches(LENGTHS, 1000, key)] for key in [(7, 0), (7, 0), (7, 1), (8, 0)]
    )
    assert first == again
    assert first != later
    assert first != other


def test_a_run_that_stops_anywhere_goes_on_with_the_same_batches() -> None:
    whole, _ = taken(Place(), 400)
    for cut in (1, 17, 250):
        begun, place = taken(Place(), cut)
        rest, _ = taken(place, 400 - cut)
        assert begun + rest == whole


def test_rollouts_written_meanwhile_wait_for_the_next_epoch() -> None:
    begun, place = taken(Place(), 5)
    more = [*LENGTHS, *range(50, 90)]
    rest, _ = taken(place, 40, more)
    assert begun + rest == taken(Place(), 45)[0]
    first_epoch = len(batches(LENGTHS, 1000, (7, 0)))
    later, _ = taken(place, first_epoch - 5 + len(batches(more, 1000, (7, 1))), more)
    assert {index for batch in later[first_epoch - 5 :] for index in batch} == set(range(len(more)))


def test_rollouts_that_vanished_are_refused() -> None:
    _, place = taken(Place(), 5)
    with pytest.raises(ValueError, match="10 rollouts, where training went through 700"):
        next(following(LENGTHS[:10], 1000, 7, place))
    with pytest.raises(ValueError, match="0 rollouts"):
        next(following([], 1000, 7, Place()))
