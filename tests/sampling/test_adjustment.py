"""Logit bias, frequency and presence penalties: the tokens they change, and what they are refused for."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import BackendError, UsageError
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY, chain
from edgedec.core_lib.needs import needs_logits
from edgedec.sampling import DrawParams
from edgedec.sampling.named import SamplingParams
from tests.reference.sampling import distribution
from tests.sampling import support
from tests.sampling.drawing import Drawing, core, draw, handle_of
from tests.sampling.support import chi_square_p, head

LOGITS = np.array([2.0, 1.5, -0.5, 1.0, 0.0, -3.0], dtype=np.float32)
BIASED = DrawParams(temperature=1.0, logit_bias={0: -100, 4: 1.5, 5: 2})  # type: ignore[arg-type]
COUNTED = DrawParams(temperature=0.9, frequency_penalty=0.7, presence_penalty=-0.4)
ALL = dataclasses.replace(BIASED, frequency_penalty=0.5, presence_penalty=0.5, repetition_penalty=1.3)


@pytest.mark.parametrize("params", [BIASED, COUNTED, ALL, dataclasses.replace(ALL, top_p=0.8)], ids=str)
def test_tokens_have_the_distribution_of_the_adjusted_logits(params: DrawParams) -> None:
    said = [1, 1, 3, 1, 5]
    expected = support.distribution(LOGITS.tolist(), params, said)
    rows = head(LOGITS, 3, full=True)
    found = distribution(rows, 0, params, said, LOGITS.size)
    assert found.tolist() == pytest.approx([expected.get(v, 0.0) for v in range(LOGITS.size)], abs=1e-9)
    counts = Counter(draw(rows, 0, params, position, said) for position in range(3_000))
    assert chi_square_p(counts, expected) > 1e-4


def test_only_what_the_reply_has_said_counts() -> None:
    """The prompt's tokens do not: they are the user's, and the template's."""
    rows = head(LOGITS, 6, full=True)
    params = DrawParams(frequency_penalty=2.0)
    assert core(Drawing(rows, params, 9, 6, (0, 0, 0), 0)).token == 0
    assert core(Drawing(rows, params, 9, 6, (0, 0, 0), 1)).token == 1
    both = dataclasses.replace(params, repetition_penalty=9.0)
    assert core(Drawing(rows, both, 9, 6, (0,), 0)).token == 1


def test_each_time_counts_for_the_frequency_and_none_but_the_first_for_the_presence() -> None:
    rows = head(LOGITS, 6, full=True)
    for params, expected in [(DrawParams(frequency_penalty=0.3), 1), (DrawParams(presence_penalty=0.3), 0)]:
        handle = handle_of(Drawing(rows, params, 0, 6))
        for _ in range(2):
            handle.commit(0)
        assert handle.verdict_on(EMPTY, rows, 0).tokens == [expected]
        assert draw(rows, 0, params, 0, [0, 0]) == expected


def test_a_path_counts_as_committed_tokens_do() -> None:
    """A drafted token is penalised at the node behind it, and no longer where the draft was wrong."""
    params = DrawParams(frequency_penalty=0.6)
    one = head(LOGITS, 6, full=True)
    rows = HeadRows(
        *(
            np.concatenate([each] * 3)
            for each in (one.values, one.ids, one.logsumexp, one.entropy, one.logits)
        )
    )
    handle = handle_of(Drawing(one, params, 0, 6))
    found = handle.verdict_on(chain([0, 1], [1.0, 1.0], "a"), rows, 0)
    assert found.tokens == [0, 1, 0]  # 2.0; 1.4 against 1.5; 1.4 against 0.9
    assert handle.verdict_on(EMPTY, one, 0).tokens == [0]


def test_a_banned_token_is_never_drawn_and_has_no_probability() -> None:
    params = DrawParams(temperature=5.0, logit_bias={2: -100})  # type: ignore[arg-type]
    rows = head(np.zeros(4), 4, full=True)
    assert {draw(rows, 0, params, position, []) for position in range(300)} == {0, 1, 3}
    assert distribution(rows, 0, params, [], 4)[2] == 0.0
    assert draw(rows, 0, DrawParams(logit_bias=((0, -100.0),)), 0, []) == 1


@pytest.mark.parametrize(
    "params", [DrawParams(), DrawParams(temperature=1.0), DrawParams(temperature=1.0, top_p=0.5)]
)
def test_a_bias_that_bans_everything_is_one_line(params: DrawParams) -> None:
    every = dataclasses.replace(params, logit_bias=tuple((v, -100.0) for v in range(100)))
    with pytest.raises(UsageError, match="no token is left"):
        draw(head(np.arange(100), 16, full=True), 0, every, 0, [])


def test_a_token_outside_the_list_may_be_lifted_into_it() -> None:
    logits = np.arange(100)[::-1]
    params = DrawParams(logit_bias=((90, 99.0),))
    assert needs_logits(params)
    assert draw(head(logits, 16, full=True), 0, params, 0, []) == 90
    with pytest.raises(BackendError, match="whole logits rows"):
        draw(head(logits, 16, full=False), 0, params, 0, [])


def test_a_bias_is_frozen_hashed_and_the_same_in_any_form() -> None:
    given = {7: -100, 3: 1.5}
    params = SamplingParams(logit_bias=given)
    given[3] = 9
    assert params.logit_bias == ((3, 1.5), (7, -100.0))
    drawn = params.over(DrawParams())
    assert hash(drawn) == hash(SamplingParams(logit_bias=((7, -100.0), (3, 1.5))).over(DrawParams()))
    assert DrawParams(**json.loads(json.dumps(dataclasses.asdict(drawn)))) == drawn
    assert drawn.summary() == "greedy, logit bias of 2 tokens"
    assert SamplingParams(temperature=0.0).over(drawn).logit_bias == ()


@pytest.mark.parametrize(
    "wrong", [5, "ab", {"7": 1}, {-1: 1}, {True: 1}, {1.0: 1}, {7: 101}, {7: -100.5}, {7: float("nan")},
              {7: "1"}, {7: True}, ((7, 1.0), (7, 2.0)), ((7,),)],
)  # fmt: skip
def test_a_bias_that_is_none_is_a_usage_error(wrong: Any) -> None:
    for kind in (SamplingParams, DrawParams):
        with pytest.raises(UsageError, match="logit bias") as error:
            kind(logit_bias=wrong)
        assert error.value.hint
