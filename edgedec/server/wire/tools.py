"""Tools and the choice among them, in OpenAI's forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.server.wire.body import path_of, short
from edgedec.server.wire.errors import invalid
from edgedec.text.template_inputs import Plain, TemplateInputs

_CHOICES = ("auto", "none", "required")
Tools = tuple[Mapping[str, Any], ...]


def tools_of(given: list[Any] | None) -> Tools:
    """Return the functions that a chat may call. Raises ApiError."""
    found = []
    for at, tool in enumerate(given or ()):
        where = path_of([at], "tools")
        kind = tool.get("type", "function") if isinstance(tool, Mapping) else tool
        if kind != "function":
            raise invalid(f"{where} is {short(kind)}; tools are functions", where, "unsupported_parameter")
        try:
            TemplateInputs((tool,))
        except UsageError as error:
            raise invalid(f"{where}: {error}", where) from None
        found.append(tool)
    return tuple(found)


def flat_tools_of(given: list[Any] | None) -> Tools:
    """Return the functions that a response may call; their fields lie in the tool itself."""
    return tools_of([_nested(tool) for tool in callable_tools(given)])


def callable_tools(given: list[Any] | None) -> list[Any]:
    """Return the tools of a response without those of other types, such as a search of the web.

    Nobody runs these here, and the model never hears of them.
    """
    return [tool for tool in given or () if not isinstance(tool, Mapping) or _is_function(tool)]


def _is_function(tool: Mapping[str, Any]) -> bool:
    kind = tool.get("type")
    return kind == "function" or not isinstance(kind, str)


def _nested(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return tool
    function = {name: value for name, value in tool.items() if name != "type"}
    return {"type": tool.get("type"), "function": function}


def choice_of(given: Any, tools: Tools) -> str:
    """Return "auto", "none", "required", or the name of the function to call. Raises ApiError."""
    if given is None:
        return "auto"
    names = [tool["function"]["name"] for tool in tools]
    named = given.get("function", given).get("name") if _names_a_function(given) else given
    if named in _CHOICES and (tools or named != "required"):
        return str(named)
    if named in names and named is not given:
        return str(named)
    allowed = [*_CHOICES, *(f"the function {name}" for name in names)] if tools else ["auto", "none"]
    raise invalid(f"tool_choice should be {', '.join(allowed)}", "tool_choice")


def options_of(given: Any) -> dict[str, Plain]:
    """Return variables of the chat template. Raises ApiError."""
    try:
        return dict(TemplateInputs(options=given or {}).options)
    except UsageError as error:
        raise invalid(str(error), "chat_template_kwargs") from None


def _names_a_function(given: Any) -> bool:
    if not isinstance(given, Mapping) or given.get("type") != "function":
        return False
    return isinstance(given.get("function", given), Mapping)
