from __future__ import annotations

import math

import pytest

from edgedec.core.errors import UsageError
from edgedec.core_lib.needs import needs_logits
from edgedec.sampling import DrawParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1), ("temperature", math.nan), ("temperature", math.inf),
        ("top_k", -1), ("top_k", 1.5), ("top_k", True),
        ("top_p", 0.0), ("top_p", 1.01), ("top_p", math.nan),
        ("min_p", -0.01), ("min_p", 1.01), ("min_p", math.nan),
        ("top_n_sigma", -1.0), ("top_n_sigma", math.inf),
        ("repetition_penalty", 0.0), ("repetition_penalty", math.inf), ("repetition_penalty", math.nan),
        ("seed", -1), ("seed", 2**64), ("seed", 0.5),
    ],
)  # fmt: skip
def test_out_of_range_is_a_usage_error_that_names_the_setting(field: str, value: float) -> None:
    with pytest.raises(UsageError) as error:
        DrawParams(**{field: value})
    assert field.replace("_", " ").split()[0] in error.value.message
    assert str(value) in error.value.message
    assert error.value.hint


def test_defaults_are_greedy() -> None:
    assert DrawParams().greedy
    assert not DrawParams(temperature=0.1).greedy


@pytest.mark.parametrize(
    ("params", "needed"),
    [
        (DrawParams(), False),
        (DrawParams(top_p=0.5, min_p=0.1, top_n_sigma=1.0), False),  # greedy: the cuts keep the best
        (DrawParams(temperature=0.7, top_k=40, top_p=0.9, min_p=0.05), False),
        (DrawParams(temperature=2.0, top_k=64), False),
        (DrawParams(temperature=0.7, top_k=65), True),
        (DrawParams(temperature=0.7), True),
        (DrawParams(temperature=1.0, top_p=0.9), True),
        (DrawParams(temperature=0.7, top_k=20, repetition_penalty=1.1), True),
        (DrawParams(repetition_penalty=1.1), True),
        (DrawParams(temperature=0.7, top_k=20, top_n_sigma=1.0), True),
    ],
)
def test_needs_logits(params: DrawParams, needed: bool) -> None:
    assert needs_logits(params) is needed
