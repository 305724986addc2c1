"""The rule that switches between a small and a large model."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from edgedec.control.switching import EntropySwitching, SwitchRule
from edgedec.core.errors import UsageError


def run(switching: EntropySwitching, bits: list[float | None]) -> str:
    """The model of each token, L or S, where switches happen as soon as they are wanted."""
    written = ""
    for entropy in bits:
        written += "L" if switching.large else "S"
        if switching.add(entropy):
            switching.switch()
    return written


def rising(rule: SwitchRule, bits: list[float]) -> str:
    return run(EntropySwitching(rule), [*bits])


def share_of_large(rule: SwitchRule, small_bits: list[float], large_bits: list[float]) -> float:
    """Share of the tokens that the large model writes where both models' entropies are known at each."""
    switching, large = EntropySwitching(rule), 0
    for small_one, large_one in zip(small_bits, large_bits, strict=True):
        large += switching.large
        if switching.add(large_one if switching.large else small_one):
            switching.switch()
    return large / len(small_bits)


def test_an_infinite_threshold_leaves_everything_to_the_small_model():
    assert rising(SwitchRule(0.5, math.inf), [9.0] * 40) == "S" * 40


def test_thresholds_below_zero_leave_everything_to_the_large_model():
    assert rising(SwitchRule(-1.0, -1.0), [0.0] * 40) == "L" * 40
    assert rising(SwitchRule(-math.inf, -1e-9), [0.0] * 40) == "L" * 40


def test_the_mean_of_the_window_counts_and_not_a_single_token():
    rule = SwitchRule(0.0, 1.0, window=4, least_run=1)
    assert rising(rule, [0.0, 0.0, 0.0, 3.9, 0.0, 0.0, 0.0]) == "S" * 7
    assert rising(rule, [0.0, 0.0, 0.0, 4.1, 0.5]) == "SSSSL"


def test_a_mean_at_the_threshold_does_not_switch():
    assert rising(SwitchRule(1.0, 1.0, window=1, least_run=1), [1.0, 1.0]) == "SS"
    assert rising(SwitchRule(1.0, 1.0, window=1, least_run=1), [1.1, 1.0, 1.0]) == "SLL"


def test_between_the_thresholds_the_running_model_goes_on():
    rule = SwitchRule(1.0, 2.0, window=1, least_run=1)
    assert rising(rule, [1.5, 1.5, 2.5, 1.5, 1.5, 0.5, 1.5]) == "SSSLLLS"


@pytest.mark.parametrize("least_run", [1, 3, 10])
def test_no_run_is_shorter_than_the_least_run(least_run):
    bits = np.random.default_rng(least_run).exponential(1.0, 400).tolist()
    written = rising(SwitchRule(0.9, 1.0, window=2, least_run=least_run), bits)
    runs = [len(list(same)) for _, same in itertools.groupby(written)]
    assert len(runs) > 3
    assert min(runs[:-1]) >= least_run


def test_entropies_of_the_other_model_do_not_count_after_a_switch():
    rule = SwitchRule(1.0, 1.0, window=5, least_run=2)
    assert rising(rule, [9.0, 9.0, 0.0, 0.0, 0.0]) == "SSLLS"


def test_a_large_model_of_unknown_entropy_hands_back_after_the_least_run():
    rule = SwitchRule(0.0, 1.0, window=1, least_run=3)
    assert run(EntropySwitching(rule), [0.0, 0.0, 5.0, None, None, None, 0.0]) == "SSSLLLS"
    assert run(EntropySwitching(SwitchRule(-1.0, -1.0, least_run=3)), [None] * 9) == "L" * 9


def test_a_higher_threshold_never_gives_the_large_model_more_where_both_are_as_unsure():
    bits = np.random.default_rng(1).exponential(1.0, 1000).tolist()
    for least_run, window in ((1, 1), (1, 5)):
        levels = np.linspace(-0.1, 4.0, 16)
        shares = [share_of_large(SwitchRule(at, at, window, least_run), bits, bits) for at in levels]
        assert shares[0] == 1.0
        assert shares[-1] < 0.05
        assert shares == sorted(shares, reverse=True)


def test_usage_falls_with_the_threshold_also_with_least_runs():
    rng = np.random.default_rng(2)
    hard = np.repeat(rng.random(200) < 0.4, 25)
    small, large = (rng.exponential(np.where(hard, 2.0, 0.3) * scale).tolist() for scale in (1.0, 0.8))
    shares = [share_of_large(SwitchRule(0.7 * at, at), small, large) for at in np.linspace(0.0, 4.0, 9)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.95
    assert shares[-1] < 0.05


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"low_bits": 2.0, "high_bits": 1.0}, "thresholds of 2.0 and 1.0"),
        ({"low_bits": math.nan, "high_bits": 1.0}, "thresholds of nan"),
        ({"low_bits": 1.0, "high_bits": 1.0, "window": 0}, "window of 0"),
        ({"low_bits": 1.0, "high_bits": 1.0, "least_run": 0}, "runs of 0"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(settings, told):
    with pytest.raises(UsageError, match=told):
        SwitchRule(**settings)
