from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import byref, c_double, c_int32

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.backends.head_rows import head_rows
from edgedec.core.rows import HeadRows
from edgedec.core_lib.library import function
from edgedec.core_lib.params import head_struct, params_struct
from edgedec.sampling import DrawParams
from tests.reference.sampling import draw

VOCAB = 50
Ids = NDArray[np.int64]


def rows(seed: int = 0) -> HeadRows:
    logits = np.random.default_rng(seed).normal(0.0, 3.0, (1, VOCAB)).astype(np.float32)
    return head_rows(logits, VOCAB, full=True)


def choices(
    head: HeadRows,
    params: DrawParams,
    position: int,
    said: Sequence[int] = (),
    to_target: Callable[[Ids], Ids] | None = None,
    behind: Sequence[int] = (),
) -> list[tuple[int, float]]:
    """Choices of a drafter; ``to_target``: the target's ids of all of the drafter's."""
    found, probs = (c_int32 * 4)(), (c_double * 4)()
    theirs = to_target(np.arange(VOCAB)).astype(np.int32).tobytes() if to_target else None
    count = function("choices")(
        byref(params_struct(params)), byref(head_struct(head)), position, (c_int32 * len(said))(*said),
        len(said), len(said), (c_int32 * len(behind))(*behind), len(behind), theirs, found, probs,
    )  # fmt: skip
    assert count >= 0
    return list(zip(found[:count], probs[:count], strict=True))


def test_greedy_choices_have_the_models_probabilities() -> None:
    head = rows()
    found = choices(head, DrawParams(), 3)
    assert [token for token, _ in found] == head.ids[0, :4].tolist()
    total = np.exp(head.values[0].astype(np.float64)).sum()
    for rank, (_, prob) in enumerate(found):
        assert prob == pytest.approx(math.exp(head.values[0, rank]) / total, rel=1e-5)


@pytest.mark.parametrize(
    "params",
    [
        DrawParams(temperature=0.8, seed=1),
        DrawParams(temperature=1.4, top_k=7, seed=2),
        DrawParams(temperature=0.9, top_p=0.8, seed=3),
        DrawParams(temperature=0.9, min_p=0.1, seed=4),
        DrawParams(temperature=0.9, repetition_penalty=1.5, seed=5),
        DrawParams(repetition_penalty=1.5),
        DrawParams(temperature=0.9, frequency_penalty=0.8, presence_penalty=-0.4, seed=6),
        DrawParams(temperature=0.9, logit_bias=((3, 2.0), (7, -100.0)), seed=7),
        DrawParams(temperature=1.2, top_k=20, typical=0.8, seed=8),
        DrawParams(temperature=1.0, top_k=20, eta=0.1, top_h=0.7, seed=9),
        DrawParams(temperature=1.3, edt=0.6, seed=10),
    ],
)
def test_the_first_choice_is_what_would_be_drawn(params: DrawParams) -> None:
    for seed in range(40):
        head = rows(seed)
        history = head.ids[0, :3].tolist()
        found = choices(head, params, seed, history)
        assert found[0][0] == draw(head, 0, params, seed, history)
        probs = [prob for _, prob in found]
        assert probs == sorted(probs, reverse=True)
        assert sum(probs) <= 1.0 + 1e-9
        assert len({token for token, _ in found}) == len(found)


def test_the_noise_is_that_of_the_targets_ids() -> None:
    """The drafter calls a token 49 - v that the target calls v."""
    params = DrawParams(temperature=1.0, seed=7)
    for seed in range(20):
        logits = np.random.default_rng(seed).normal(0.0, 2.0, (1, VOCAB)).astype(np.float32)
        theirs = head_rows(logits, VOCAB, full=True)
        mine = head_rows(np.ascontiguousarray(logits[:, ::-1]), VOCAB, full=True)
        found = choices(mine, params, seed, (), lambda ids: VOCAB - 1 - ids)
        assert VOCAB - 1 - found[0][0] == draw(theirs, 0, params, seed, ())


def test_what_the_target_cannot_say_is_left_out_when_sampling() -> None:
    head = rows()
    best = int(head.ids[0, 0])
    params = DrawParams(temperature=0.01)
    found = choices(head, params, 0, (), lambda ids: np.where(ids == best, -1, ids))
    assert found[0][0] == int(head.ids[0, 1])
    assert choices(head, params, 0, (), lambda ids: np.full_like(ids, -1)) == []


def test_sampling_at_a_low_temperature_is_as_sure_as_greedy() -> None:
    for seed in range(10):
        head = rows(seed)
        greedy = choices(head, DrawParams(), 0)
        cold = dict(choices(head, DrawParams(temperature=0.02, seed=seed), 0))
        for token, prob in greedy[:2]:
            assert cold[token] == pytest.approx(prob, abs=0.1)


@pytest.mark.parametrize(
    "params",
    [
        DrawParams(),
        DrawParams(temperature=0.9, seed=1),
        DrawParams(temperature=1.3, typical=0.2, seed=2),
        DrawParams(temperature=1.0, eta=0.1, top_h=0.4, seed=3),
        DrawParams(temperature=0.9, repetition_penalty=1.5, typical=0.5, seed=4),
    ],
)
def test_a_trimmed_row_is_read_to_its_last_token(params: DrawParams) -> None:
    """Where fewer tokens are kept than a row has places, it ends with the id -1 and the value -inf."""
    for seed in range(20):
        logits = np.random.default_rng(seed).normal(0.0, 1.0, (1, VOCAB)).astype(np.float32)
        short, padded = (head_rows(logits, k, full=False) for k in (3, VOCAB))
        padded.ids[0, 3:], padded.values[0, 3:] = -1, -np.inf
        expected = HeadRows(short.values, short.ids, padded.logsumexp, padded.entropy)
        found = choices(padded, params, seed)
        assert found
        assert found == choices(expected, params, seed)


def test_a_path_counts_as_said() -> None:
    """Penalties read the drafted tokens that lead to a node."""
    params = DrawParams(temperature=0.9, frequency_penalty=1.5, repetition_penalty=1.4, seed=5)
    for seed in range(20):
        head = rows(seed)
        best = head.ids[0, :3].tolist()
        expected = choices(head, params, seed, [9, *best])
        assert choices(head, params, seed, [9, best[0]], behind=best[1:]) == expected
        assert choices(head, params, seed, [9, best[0]]) != expected
