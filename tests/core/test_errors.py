"""The errors that users meet."""

from __future__ import annotations

from edgedec.core.errors import NotFoundError


def test_names_that_are_near_stand_before_the_hint_and_stay_with_another_message() -> None:
    error = NotFoundError("no model named x", hint="pull one", near=["xy", "xz"])
    assert str(error) == "no model named x (did you mean xy, xz? pull one)"
    again = error.reworded("line 3: no model named x")
    assert again.near == ("xy", "xz")
    assert str(again) == "line 3: no model named x (did you mean xy, xz? pull one)"
    assert str(error).startswith("no model")
    assert str(NotFoundError("no model named x")) == "no model named x"
