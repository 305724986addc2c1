"""Pieces of prompts beside replies: as long as passes allow, and cut where no row is wanted."""

from __future__ import annotations

import pytest

from edgedec.backends.backend import PassRequest
from edgedec.backends.onnx.pieces import PieceSize, cut, spare_tokens
from edgedec.core.rows import ALL_ROWS, LAST_ROW, Rows


@pytest.mark.parametrize(
    ("plain", "token", "expected"),
    [(0.02, 0.0005, 60), (0.02, 0.01, 8), (0.1, 0.0, 128), (0.025, 0.0025, 15), (0.1, 0.002, 75)],
)
def test_a_piece_slows_replies_down_by_half_as_much_again_as_they_take(
    plain: float, token: float, expected: int
) -> None:
    size = PieceSize()
    size.passed(1.0, 16)  # before it is known what replies take
    assert size.tokens == 0
    size.passed(plain, 0)
    assert size.tokens == 8
    for _ in range(60):
        size.passed(plain, 0)
        size.passed(plain + size.tokens * token, size.tokens)
    assert size.tokens == pytest.approx(expected, abs=1)


def test_pieces_follow_the_machine() -> None:
    size = PieceSize()
    for slowness in (1.0, 5.0, 0.2):
        for _ in range(60):
            size.passed(0.02 * slowness, 0)
            size.passed(slowness * (0.02 + size.tokens * 0.0005), size.tokens)
        assert size.tokens == pytest.approx(60, abs=1)


@pytest.mark.parametrize(
    ("request_", "spare"),
    [
        (PassRequest(0, [1] * 40, rows=LAST_ROW), 39),
        (PassRequest(0, [1] * 40, rows=Rows(())), 39),
        (PassRequest(0, [1] * 40, rows=Rows((30, 35))), 30),
        (PassRequest(0, [1] * 40, rows=ALL_ROWS), 0),
        (PassRequest(0, [1] * 16, rows=LAST_ROW), 0),
        (PassRequest(0, [1] * 40, [-1] * 40, LAST_ROW), 0),
    ],
)
def test_tokens_that_could_have_a_pass_of_their_own(request_: PassRequest, spare: int) -> None:
    assert spare_tokens(request_) == spare


@pytest.mark.parametrize("rows", [LAST_ROW, Rows(()), Rows((30, 39), full=True, temperature=0.5)])
def test_two_parts_are_the_request(rows: Rows) -> None:
    whole = PassRequest(3, [*range(40)], rows=rows)
    first, rest = cut(whole, 25)
    assert (first.tokens, first.rows.resolve(25)) == ([*range(25)], ())
    assert (rest.tokens, rest.sequence) == ([*range(25, 40)], 3)
    assert [25 + row for row in rest.rows.resolve(15)] == [*rows.resolve(40)]
    assert (rest.rows.full, rest.rows.temperature) == (rows.full, rows.temperature)
