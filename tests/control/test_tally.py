"""Counts by drafter, and the speed that they predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from edgedec.control import CostCurve
from edgedec.control.tally import Count, Effort, Forecast, Tally
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter
from tests.control.simulate import CURVES, LONGEST, Device, Guesser, curve, decode, text

PASS = 0.005


def test_figures_of_a_drafter_that_was_queried_in_vain_stand_beside_those_of_one_that_was_fed() -> None:
    efforts = {"fed": Effort(1, 2, 0.002, 0.001), "vain": Effort(1, 5, 0.002, 0.001, 7000, 3)}
    tally = Tally(draft_s=0.01, verify_s=0.03, by_source={"fed": Count(2, 1)}, by_drafter=efforts)
    found = tally.of_drafters()
    assert found["fed"] == {
        "drafted": 2, "accepted": 1, "queries": 1, "proposed": 2, "draft_s": 0.002, "learn_s": 0.001,
        "bytes_read": 0, "table_bytes": 0, "passes": 0,
    }  # fmt: skip
    assert (found["vain"]["drafted"], found["vain"]["accepted"]) == (0, 0)
    assert (found["vain"]["bytes_read"], found["vain"]["passes"]) == (7000, 3)
    assert tally.share("fed") == pytest.approx(0.003 / 0.04)
    assert tally.as_json()["drafted_by"] == found


def test_without_costs_nothing_is_predicted() -> None:
    tally = Tally(rounds=1, committed=2, drafted=1, accepted=1, verify_s=0.03)
    assert tally.predicted_tokens_per_s is None
    assert tally.predicted_speed_up is None
    assert tally.as_json()["predicted_speed_up"] is None
    assert tally.share("x") == 0.0


def test_a_prediction_adds_up_passes_and_calls_of_drafters() -> None:
    efforts = {"x": Effort(draft_s=0.2, learn_s=0.1)}
    tally = Tally(by_drafter=efforts, forecast=Forecast(tokens=4, passes_s=0.9, plain_s=1.6))
    assert tally.predicted_s == pytest.approx(1.2)
    assert tally.predicted_tokens_per_s == pytest.approx(4 / 1.2)
    assert tally.predicted_speed_up == pytest.approx(1.6 / 1.2)


def decoded(device: Device, make: Callable[[Sequence[int]], list[Drafter]]) -> tuple[Tally, float, float]:
    """The tally of decoding a text with drafts, its seconds, and those of plain decoding."""
    truth = text()
    costs = CostCurve({count: device.costs.seconds(count) for count in range(1, LONGEST + 1)})
    speculation = Speculation(make(truth), costs, clock=device.clock)
    took = decode(truth, device, speculation)
    return speculation.tally, took, decode(truth, Device(device.costs, device.noise), None)


@pytest.mark.parametrize("shape", ["vnni", "avx2"])
@pytest.mark.parametrize("right", [0.3, 0.7])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_predicted_speed_is_the_measured_one(shape: str, right: float, noise: float) -> None:
    device = Device(curve(CURVES[shape]), noise=noise)
    tally, took, plain = decoded(
        device,
        lambda truth: [
            Guesser(truth, device, lambda at: right, call=0.05 * PASS, level=0.1 * PASS, name="model"),
            Guesser(truth, device, lambda at: float(at % 7 == 0), call=20e-6, name="quick"),
        ],
    )
    within = 0.005 if not noise else 0.06
    assert tally.predicted_tokens_per_s == pytest.approx(tally.committed / took, rel=within)
    assert tally.predicted_speed_up == pytest.approx(plain / took, rel=within)
    assert {name: effort.queries > 0 for name, effort in tally.by_drafter.items()} == {
        "model": True,
        "quick": True,
    }


def test_what_speculation_itself_takes_is_not_in_the_prediction() -> None:
    """So the difference to the measured speed shows it."""

    device = Device(curve(CURVES["vnni"]))
    run = device.run

    def slow(tokens: int) -> float:
        took = run(tokens)
        device.now += 0.2 * PASS  # after the pass, and outside of drafters
        return took

    device.run = slow  # type: ignore[method-assign]
    tally, took, _ = decoded(device, lambda truth: [Guesser(truth, device, lambda at: 0.8)])
    assert tally.predicted_tokens_per_s is not None
    assert tally.predicted_tokens_per_s > 1.05 * tally.committed / took
