"""Experts as a manifest states them."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from edgedec.core.experts import Experts, experts_from_json

KNOWN = Experts(layers=2, count=8, chosen=2, width=32, slot_bytes=4096, nbytes=16 * 4096)


def test_they_are_read_as_they_were_written() -> None:
    assert experts_from_json(asdict(KNOWN)) == KNOWN


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layers": 0}, "has no proper layers"),
        ({"count": True}, "has no proper count"),
        ({"width": "32"}, "has no proper width"),
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
