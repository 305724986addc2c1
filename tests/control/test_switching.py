"""The rule that switches between a small and a large model."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from edgedec.control.switching import EntropySwitching, SwitchRule
from edgedec.core.errors import UsageError


def run(rule: SwitchRule, small: list[float], large: list[float | None]) -> str:
    """The model of each token, L or S, where both models' entropies are known at each."""
    switching, written = EntropySwitching(rule), ""
    for mine, theirs in zip(small, large, strict=True):
        if not switching.large and switching.add(mine):
            switching.switch()  # the large model writes this token
        if not switching.large:
            written += "S"
            continue
        written += "L"
        if switching.add(theirs):
            switching.switch()
    return written


def test_an_infinite_threshold_leaves_everything_to_the_small_model():
    assert run(SwitchRule(math.inf), [9.0] * 40, [9.0] * 40) == "S" * 40


def test_a_threshold_below_zero_leaves_everything_to_the_large_model():
    for bits in (-1.0, -1e-9, -math.inf):
        assert run(SwitchRule(bits), [0.0] * 40, [0.0] * 40) == "L" * 40
    assert run(SwitchRule(-1.0, least_run=3), [0.0] * 9, [None] * 9) == "L" * 9


def test_an_unsure_token_is_the_large_models_and_one_at_the_threshold_is_not():
    assert run(SwitchRule(1.0), [0.0, 1.0, 1.1, 1.0], [0.0] * 4) == "SSLS"


def test_the_large_model_goes_on_until_it_is_sure():
    assert run(SwitchRule(1.0), [2.0, 0.0, 0.0, 0.0], [2.0, 1.1, 1.0, 9.0]) == "LLLS"


def test_a_large_model_of_unknown_entropy_hands_back_after_the_least_run():
    assert run(SwitchRule(1.0, least_run=3), [0.0, 5.0, *[0.0] * 4], [None] * 6) == "SLLLSS"


@pytest.mark.parametrize("least_run", [1, 3, 10])
def test_no_run_of_the_large_model_is_shorter_than_the_least_run(least_run):
    small, large = np.random.default_rng(least_run).exponential(1.0, (2, 400)).tolist()
    written = run(SwitchRule(1.5, least_run), small, large)
    runs = [len(list(same)) for writer, same in itertools.groupby(written) if writer == "L"]
    assert len(runs) > 3
    assert min(runs[:-1]) >= least_run


def test_a_higher_threshold_never_gives_the_large_model_more():
    small, large = np.random.default_rng(1).exponential(1.0, (2, 1000)).tolist()
    shares = [run(SwitchRule(at), small, large).count("L") for at in np.linspace(-0.1, 8.0, 16)]
    assert shares[0] == 1000
    assert shares[-1] < 10
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(
    ("settings", "told"),
    [((math.nan,), "threshold of nan"), ((1.0, 0), "runs of 0")],
)
def test_a_rule_that_cannot_be_followed_is_refused(settings, told):
    with pytest.raises(UsageError, match=told):
        SwitchRule(*settings)
