from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.core.errors import UsageError
from edgedec.text.stop_strings import StopStrings

TEXT = st.text(alphabet="abc", max_size=30)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3)


def cut(text: str, stops: list[str]) -> tuple[str, bool]:
    """The definition, one character at a time: the first stop string to be complete, the longest of those."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


@st.composite
def pieces(draw: st.DrawFn) -> list[str]:
    text = draw(TEXT)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(pieces(), STOPS)
def test_any_cutting_into_pieces_gives_the_same_text(parts: list[str], stops: list[str]) -> None:
    stream = StopStrings(stops)
    shown = "".join([stream.push(part) for part in parts]) + stream.flush()
    assert (shown, stream.hit) == cut("".join(parts), stops)


@given(pieces(), STOPS)
def test_nothing_of_a_stop_string_is_ever_shown(parts: list[str], stops: list[str]) -> None:
    stream = StopStrings(stops)
    final, _ = cut("".join(parts), stops)
    shown = ""
    for part in parts:
        shown += stream.push(part)
        assert final.startswith(shown)


@given(TEXT)
def test_without_stop_strings_nothing_is_held_back(text: str) -> None:
    stream = StopStrings()
    assert [stream.push(char) for char in text] == list(text)
    assert stream.flush() == ""


def test_held_text_is_released_when_it_cannot_become_a_stop_string() -> None:
    stream = StopStrings(["###"])
    assert [stream.push(part) for part in ("a##", "b", "##")] == ["a", "##b", ""]
    assert stream.flush() == "##"
    assert not stream.hit


def test_after_a_hit_everything_is_dropped() -> None:
    stream = StopStrings(["END"])
    assert [stream.push(part) for part in ("xEN", "Dy", "z")] == ["x", "", ""]
    assert stream.flush() == ""


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(UsageError, match="must not be empty"):
        StopStrings(["a", ""])
