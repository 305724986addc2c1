"""Experts as a manifest states them."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from edgedec.core.experts import Experts, experts_from_json
from edgedec.core.model_spec import ModelSpec

KNOWN = Experts(layers=2, count=8, chosen=2, width=32, slot_bytes=4096, nbytes=16 * 4096)


def test_they_are_read_as_they_were_written() -> None:
    for known in (KNOWN, replace(KNOWN, shared=96)):
        assert experts_from_json(asdict(known)) == known
    older = asdict(KNOWN)
    del older["shared"]
    assert experts_from_json(older) == KNOWN


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layers": 0}, "has no proper layers"),
        ({"count": True}, "has no proper count"),
        ({"width": "32"}, "has no proper width"),
        ({"shared": -1}, "has no proper shared"),
        ({"slot_bytes": 1 << 60}, "has no proper slot_bytes"),
        ({"chosen": 9}, "has sizes that do not fit each other"),
        ({"nbytes": 16 * 4096 + 1}, "has sizes that do not fit each other"),
        ({"slot_bytes": 17 * 4096}, "has sizes that do not fit each other"),
        ({"layers": 1 << 40, "count": 1 << 40}, "has sizes that do not fit each other"),
    ],
)
def test_impossible_ones_are_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        experts_from_json({**asdict(KNOWN), **changed})
    for value in (None, [], "experts", {}):
        with pytest.raises(TypeError):
            experts_from_json(value)


def test_a_pass_over_many_tokens_takes_more_of_them() -> None:
    assert KNOWN.expected(1) == pytest.approx(2 / 8)
    assert KNOWN.expected(2) == pytest.approx(1 - (6 / 8) ** 2)
    assert 0.99 < KNOWN.expected(30) <= 1


def spec(experts: Experts | None) -> ModelSpec:
    """A model of three layers, of which the last two may have experts."""
    return ModelSpec("m", "lfm2moe", 100, 3, 4, 2, 16, 64, 256, ffn_size=128, experts=experts)


def test_a_token_takes_the_mlps_and_some_experts() -> None:
    assert spec(None).taken == 3 * 128
    assert spec(KNOWN).taken == 128 + 2 * 2 * 32
    assert spec(replace(KNOWN, shared=96)).taken == 128 + 2 * (2 * 32 + 96)


def test_a_pass_reads_the_experts_that_it_takes_wherever_they_lie() -> None:
    dense, experts = 50_000, KNOWN.nbytes
    assert spec(None).read_bytes(dense) == dense
    for weights in (dense + experts, dense):  # those on a disk are not among the weights in memory
        assert spec(KNOWN).dense_bytes(weights) == dense
        assert spec(KNOWN).read_bytes(weights) == pytest.approx(dense + experts / 4)
        assert spec(KNOWN).read_bytes(weights, 2) == pytest.approx(dense + experts * (1 - 0.75**2))
