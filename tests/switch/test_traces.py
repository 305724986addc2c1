"""Thresholds from the entropies of both models along the large one's replies."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.switch.traces import Reader, Trace, of_agreement, of_share, sweep, traced_reply
from tests.switch.pairs import PAIRS, Pair

PROMPT = [1, 70, 71, 72, 70, 71]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


def reader(pair: Pair, which: str) -> Reader:
    model = pair.large if which == "large" else pair.small
    return Reader(getattr(pair.engine, which), model.tokenizer.token_bytes)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_trace_has_both_models_entropies_at_every_token(folder, kind):
    pair = Pair(folder, kind)
    trace = traced_reply(reader(pair, "large"), reader(pair, "small"), PROMPT, 30)
    assert 20 <= len(trace.agreed) <= 30
    assert len(trace.small_bits) == len(trace.large_bits) == len(trace.agreed)
    assert all(0.0 < bits < 9.0 for bits in (*trace.small_bits, *trace.large_bits))


def test_a_model_beside_itself_agrees_with_every_token_and_is_as_unsure(folder):
    pair = Pair(folder, "one vocabulary")
    large = reader(pair, "large")
    twin = Reader(pair.engine.large, large.spelling)
    trace = traced_reply(large, twin, PROMPT, 20)
    assert all(trace.agreed)
    assert trace.small_bits == pytest.approx(trace.large_bits, abs=1e-6)


def test_a_sweep_goes_from_one_model_alone_to_the_other():
    hard = [3.0, 2.5, 2.8, 2.6, 0.1, 0.2, 0.1, 0.3, 0.1, 0.1] * 20
    trace = Trace(hard, [bits / 2 for bits in hard], [bits < 1.0 for bits in hard])
    points = sweep([trace], window=2, least_run=1)
    assert (points[0].share, points[0].agreement) == (1.0, 1.0)
    assert (points[-1].share, points[-1].agreement) == (0.0, 0.6)
    assert all(point.rule.low_bits <= point.rule.high_bits for point in points)
    middle = of_share(points, 0.5)
    assert middle.share == pytest.approx(0.5, abs=0.15)
    assert middle.agreement > 0.5 * 1.0 + 0.5 * 0.6  # better than at random
    enough = of_agreement(points, 0.8)
    assert enough.agreement >= 0.8
    assert enough.share < 1.0
    assert of_agreement(points, 1.0).agreement == 1.0
