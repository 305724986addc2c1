"""Tools made of Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from edgedec.core.errors import UsageError
from edgedec.session.function_tools import tool_of, tools_of


def search(
    words: list[str],
    more: dict[str, float],
    kind: Literal["all", "any"] = "any",
    limit: int | None = None,
) -> str:
    """Search
    the web.

    Not for the model.
    """
    return ""


def test_annotations_become_a_schema() -> None:
    function = tool_of(search)["function"]
    assert (function["name"], function["description"]) == ("search", "Search the web.")
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "words": {"type": "array", "items": {"type": "string"}},
            "kind": {"enum": ["all", "any"], "default": "any"},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "more": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["words", "more"],
        "additionalProperties": False,
    }


def test_mappings_stay_as_they_are() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    assert tools_of([tool, search]) == (tool, tool_of(search))


def untyped(a) -> None: ...  # type: ignore[no-untyped-def]


def unknown(a: Callable[..., Any]) -> None: ...


def anything(*a: int) -> None: ...


@pytest.mark.parametrize("function", [untyped, unknown, anything])
def test_a_parameter_without_a_schema_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match=function.__name__):
        tool_of(function)
