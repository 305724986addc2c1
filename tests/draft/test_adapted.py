"""A correction that a head learns while decoding: it helps where errors repeat, and is off elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.rows import HeadRows
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft.adapted import Adapted
from edgedec.draft.exit import ExitDrafter
from edgedec.draft.trimmed import TrimmedHead
from edgedec.sampling import DrawParams
from tests.decode.test_engine import EVERY_KIND, tokens
from tests.draft.test_exit import kept

VOCAB = 40
KEPT = 8


def answer(probs: np.ndarray) -> HeadRows:
    """The best tokens of a row with these probabilities f64[V]."""
    ids = np.lexsort((np.arange(probs.size), -probs))[:KEPT]
    values = np.log(probs[ids]).astype(np.float32)[None]
    none = np.zeros(1, np.float32)
    return HeadRows(values, ids.astype(np.int32)[None], none, none)


def heads(seed: int) -> Iterator[tuple[HeadRows, np.ndarray]]:
    """A head's answers to one text: random ones, and sure of its best token."""
    dice = np.random.default_rng(seed)
    while True:
        probs = dice.dirichlet(np.full(VOCAB, 0.15)) + 1e-6
        probs /= probs.sum()
        yield answer(probs), probs


Text = Callable[[HeadRows, np.ndarray, int], int]
"""The token that comes, by the head's answer, its probabilities, and the position."""


def play(text: Text, count: int, adapted: Adapted, seed: int = 1) -> tuple[float, float, list[bool]]:
    """How often the corrected head and the head as it is were right, and when the correction was in use."""
    right = plain = 0
    used: list[bool] = []
    for at, (rows, probs) in zip(range(count), heads(seed), strict=False):
        came = text(rows, probs, at)
        right += int(adapted.corrected(rows).ids[0, 0]) == came
        plain += int(rows.ids[0, 0]) == came
        used.append(adapted.helps)
        adapted.learn(rows, 0, came)
    return right / count, plain / count, used


def shifted(rows: HeadRows, probs: np.ndarray, at: int) -> int:
    """The likeliest token of the lower half of the vocabulary: a text of which the head knows too many."""
    return int(np.argmax(probs[: VOCAB // 2]))


def as_the_head_says(rows: HeadRows, probs: np.ndarray, at: int) -> int:
    return random.Random(at).choices(range(VOCAB), probs.tolist())[0]


def test_errors_that_repeat_are_corrected() -> None:
    right, plain, used = play(shifted, 600, Adapted())
    assert plain < 0.6
    assert right > plain + 0.2
    assert all(used[300:])


@pytest.mark.parametrize("seed", range(4))
def test_a_head_that_is_as_right_as_it_can_be_loses_nothing(seed: int) -> None:
    right, plain, used = play(as_the_head_says, 600, Adapted(), seed)
    assert right > plain - 0.01
    assert np.mean(used) < 0.2


def test_it_turns_itself_off_when_the_text_changes_back() -> None:
    adapted = Adapted()

    def text(rows: HeadRows, probs: np.ndarray, at: int) -> int:
        return shifted(rows, probs, at) if at < 300 else int(rows.ids[0, 0])

    _, _, used = play(text, 600, adapted)
    assert used[299]
    assert not any(used[340:])
    rows, _ = next(heads(5))
    assert adapted.corrected(rows) is rows


def test_an_adversary_cannot_make_it_cost_much() -> None:
    """The token that comes is never the corrected head's first, and mostly the head's own."""
    adapted = Adapted()

    def text(rows: HeadRows, probs: np.ndarray, at: int) -> int:
        said = int(adapted._row(rows, 0)[0][0])
        return int(rows.ids[0, 1 if said == int(rows.ids[0, 0]) else 0])

    right, plain, used = play(text, 400, adapted)
    assert right == plain
    assert not any(used)


def test_corrected_rows_are_best_first_and_stay_a_distribution() -> None:
    adapted = Adapted()
    play(shifted, 300, adapted)
    for (rows, _), _ in zip(heads(9), range(50), strict=False):
        found = adapted.corrected(rows)
        values, ids = found.values[0], found.ids[0]
        assert set(ids.tolist()) == set(rows.ids[0].tolist())
        assert (np.diff(values) <= 0).all()
        total = np.exp(values.astype(np.float64) - float(found.logsumexp[0])).sum()
        assert 0.0 < total < 1.0 + 1e-6
        assert found.entropy is rows.entropy


def test_it_follows_from_rows_and_tokens_alone_and_stays_small() -> None:
    first, second = Adapted(), Adapted()
    size = first.nbytes()
    assert play(shifted, 200, first)[2] == play(shifted, 200, second)[2]
    assert (first._bias == second._bias).all()
    assert first.nbytes() == size <= 1 << 18
    assert np.abs(first._bias).max() <= 4.0


def test_ids_beyond_the_table_share_its_entries() -> None:
    adapted, none = Adapted(), np.zeros(1, np.float32)
    far = adapted._bias.size * 3 + 5
    values = np.log(np.array([[0.6, 0.3]], np.float32))
    rows = HeadRows(values, np.array([[7, far]], np.int32), none, none)
    for _ in range(20):
        adapted.learn(rows, 0, far)
    assert int(adapted.corrected(rows).ids[0, 0]) == far


@pytest.mark.parametrize("params", EVERY_KIND)
def test_replies_are_those_of_plain_decoding_while_it_corrects(
    params: DrawParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Adapted, "helps", property(lambda one: True))
    forward = MarkovForward()
    drafters = [ExitDrafter(forward, 2, TrimmedHead(kept(2, 17), bound=0.5))]
    spoken = Speculation(drafters)
    engine = Engine(forward, speculation=spoken)
    for prompt in ([1, 2, 1, 2, 1], [0, 1, 2] * 12):
        assert tokens(engine, prompt, params, 20) == tokens(Engine(MarkovForward()), prompt, params, 20)
    assert drafters[0]._adapted is not None
    assert np.abs(drafters[0]._adapted._bias).max() > 0.0
    assert spoken.drafters == ("exit-2",)
