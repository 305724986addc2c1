"""Places of a prompt where reading stops, so that a changed message does not read everything again."""

from __future__ import annotations

import pytest

from edgedec.decode.turn_ends import turn_ends

END = 0


def prompt_of(*lengths: int) -> list[int]:
    """Messages of so many tokens, each with its end, and the beginning of a reply."""
    return [token for length in lengths for token in [*[7] * (length - 1), END]] + [8] * 3


@pytest.mark.parametrize(
    ("lengths", "places"),
    [
        ((300, 100, 100, 100, 100), [300, 400, 600]),  # system, question, answer, question, answer
        ((300, 100), [300]),
        ((30, 500), []),  # the first message is read as quickly as it is kept
        ((300, 20, 20, 20), [300]),
        ((), []),
        ((200, 3000), [200, 2947]),  # a long last message changes at its end, too
    ],
)
def test_places(lengths: tuple[int, ...], places: list[int]) -> None:
    assert turn_ends(prompt_of(*lengths), {END}) == places


def test_a_long_text_without_messages_stops_near_its_end() -> None:
    assert turn_ends([5] * 5000, {END}) == [4744]


def test_places_depend_on_the_tokens_before_the_last_message_alone() -> None:
    """A changed last message stops at the same places before it."""
    first, second = (prompt_of(300, 100, 100, last) for last in (80, 90))
    assert turn_ends(first, {END}) == turn_ends(second, {END})
