"""Sampling values that a caller names: the rest is as the model's preset says."""

from __future__ import annotations

import pytest

import edgedec
from edgedec.bundle.preset import Preset
from edgedec.core.errors import UsageError
from edgedec.sampling import DrawParams
from edgedec.sampling.named import SamplingParams, chosen

PRESET = Preset(temperature=0.7, top_k=20, top_p=0.8)
GIVEN = DrawParams.of(PRESET, seed=5)


def test_naming_nothing_is_the_same_as_no_sampling_at_all() -> None:
    for sampling in (None, SamplingParams()):
        assert chosen(sampling, GIVEN) == GIVEN
        assert edgedec.RunConfig(sampling=sampling).sampling_for(PRESET) == DrawParams.of(PRESET)


def test_what_is_not_named_is_as_the_preset_says() -> None:
    assert SamplingParams(top_p=1.0, seed=9).over(GIVEN) == DrawParams(temperature=0.7, top_k=20, seed=9)


def test_temperature_0_turns_off_all_that_is_not_named() -> None:
    assert SamplingParams.greedy().over(GIVEN) == DrawParams(seed=5)
    assert SamplingParams(temperature=0.0, repetition_penalty=1.2).over(GIVEN) == DrawParams(
        repetition_penalty=1.2, seed=5
    )


def test_all_values_of_a_model_may_be_passed_on() -> None:
    whole = DrawParams(temperature=0.3, seed=2)
    assert chosen(whole, GIVEN) is whole


@pytest.mark.parametrize("wrong", [{"temperature": -1.0}, {"top_p": 0.0}, {"seed": -1}])
def test_a_value_out_of_range_is_refused_at_once(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="cannot be"):
        SamplingParams(**wrong)  # type: ignore[arg-type]
