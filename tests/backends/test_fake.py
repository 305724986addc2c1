from __future__ import annotations

import math

import numpy as np
import pytest

from edgedec.backends.fake import Expect, FakeForward, MarkovForward, ScriptError
from edgedec.backends.head_rows import head_rows
from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, Rows


def test_both_are_forwards() -> None:
    fakes: list[Forward] = [FakeForward([]), MarkovForward()]
    assert [fake.length for fake in fakes] == [0, 0]


def test_the_script_answers_in_order() -> None:
    fake = FakeForward([Expect(0, (1, 2), (3, 4)), Expect(2, (4, 9), (5, 6), (-1, -1))])
    assert fake.extend([1, 2], rows=ALL_ROWS).ids[:, 0].tolist() == [3, 4]
    assert not fake.finished
    assert fake.extend([4, 9], parents=[-1, -1], rows=ALL_ROWS).ids[:, 0].tolist() == [5, 6]
    assert fake.finished
    fake.keep_path([1])
    assert fake.length == 3


@pytest.mark.parametrize(
    ("tokens", "parents", "rows"),
    [
        ([1, 3], None, Rows(last=True)),
        ([1], None, Rows(last=True)),
        ([1, 2, 3], None, Rows(last=True)),
        ([1, 2], [-1, -1], Rows(last=True)),
        ([1, 2], None, ALL_ROWS),
    ],
)
def test_anything_else_fails(tokens: list[int], parents: list[int] | None, rows: Rows) -> None:
    fake = FakeForward([Expect(0, (1, 2), (3,))])
    with pytest.raises(ScriptError, match="expected"):
        fake.extend(tokens, parents=parents, rows=rows)
    assert fake.length == 0


def test_a_wrong_start_fails() -> None:
    fake = FakeForward([Expect(0, (1, 2), (3,)), Expect(2, (3,), (4,))])
    fake.extend([1, 2])
    fake.rewind(1)
    with pytest.raises(ScriptError, match="expected"):
        fake.extend([3])


def test_the_markov_model_has_ties_and_no_favourites() -> None:
    forward = MarkovForward(vocab_size=24, max_pass=256)
    rows = forward.extend([1] * 200, rows=Rows(full=True))
    assert rows.logits is not None
    ties = (np.diff(rows.values, axis=1) == 0).any(axis=1)
    assert ties.mean() > 0.5
    assert np.unique(rows.ids[:, 0]).size > 20


def test_seeds_make_different_models() -> None:
    a, b = MarkovForward(seed=1).extend([1, 2]), MarkovForward(seed=2).extend([1, 2])
    assert a.ids.tolist() != b.ids.tolist()


def test_head_rows_by_hand() -> None:
    logits = np.array([[0.0, math.log(3), 0.0, -np.inf], [5, 5, 5, 5]], dtype=np.float32)
    rows = head_rows(logits, 3, full=True)
    assert rows.ids.tolist() == [[1, 0, 2], [0, 1, 2]]
    assert rows.values.tolist() == np.take_along_axis(logits, rows.ids.astype(int), 1).tolist()
    entropy = 0.6 * math.log(1 / 0.6) + 0.4 * math.log(1 / 0.2)
    assert rows.logsumexp == pytest.approx([math.log(5), 5 + math.log(4)], abs=1e-6)
    assert rows.entropy == pytest.approx([entropy, math.log(4)], abs=1e-6)
    assert head_rows(logits, 64, full=False).ids.shape == (2, 4)
