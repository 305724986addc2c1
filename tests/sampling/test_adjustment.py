"""Logit bias, frequency and presence penalties: the tokens they change, and what they are refused for."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import UsageError
from edgedec.sampling import DrawParams
from edgedec.sampling.named import SamplingParams
from tests.reference.sampling import distribution
from tests.sampling import support
from tests.sampling.drawing import Drawing, core, draw
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
