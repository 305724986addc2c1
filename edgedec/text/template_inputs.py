"""Values beside the messages that a chat template gets: tools, and options of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

Plain = str | int | float | bool | None

RESERVED = frozenset(
    ("messages", "tools", "xml_tools", "documents", "add_generation_prompt", "bos_token", "eos_token")
)
"""Variables of a template that are no options."""
_TOOL_HINT = 'as in {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}'


@dataclass(frozen=True, slots=True)
class TemplateInputs:
    """Values of a conversation that a chat template gets beside the messages.

    ``tools`` are functions in OpenAI's form. ``options`` are variables of the template's own, such as
    ``enable_thinking``. Raises UsageError for a tool or an option that is none.

    >>> TemplateInputs(options={"enable_thinking": False}).options
    {'enable_thinking': False}
    """

    tools: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, Plain] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tool in self.tools:
            _check_tool(tool)
        names = [tool["function"]["name"] for tool in self.tools]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"two tools have the name {twice!r:.40}", hint="rename one of them")
        for name, value in self.options.items():
            if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
                raise UsageError(f"{name!r:.40} is no option of a chat template")
            if value is not None and not isinstance(value, str | int | float | bool):
                raise UsageError(f"the value of the template option {name} is {value!r:.40}, and not plain")


def complete_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool as templates see it: with description and parameters, and without ``strict``."""
    given = tool["function"]
    function = {"name": given["name"], "description": "", "parameters": {"type": "object", "properties": {}}}
    function |= {key: value for key, value in given.items() if value is not None and key != "strict"}
    return {"type": "function", **tool, "function": function}


def in_system_message(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return messages whose system message has the tools as text, which Phi-4-mini's template reads there."""
    first, rest = dict(messages[0]) if messages else {}, [dict(message) for message in messages[1:]]
    if first.get("role") != "system":
        rest = [dict(message) for message in messages]
        first = {"role": "system", "content": ""}
    functions = [tool["function"] for tool in tools]
    return [{**first, "tools": json.dumps(functions, ensure_ascii=False)}, *rest]


def with_thoughts(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages of which calls have their reasoning as ``thinking``, which gpt-oss's template reads.

    It takes no content beside that.
    """
    return [
        {**message, "thinking": message["reasoning_content"]}
        if message.get("tool_calls") and message.get("reasoning_content") and not message.get("content")
        else dict(message)
        for message in messages
    ]


def _check_tool(tool: object) -> None:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if (
        not isinstance(tool, Mapping)
        or tool.get("type", "function") != "function"
        or not isinstance(function, Mapping)
        or not isinstance(function.get("name"), str)
        or not function["name"]
        or not isinstance(function.get("parameters") or {}, Mapping)
    ):
        raise UsageError(f"{tool!r:.60} is no tool", hint=_TOOL_HINT)
    try:
        json.dumps(tool, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the tool {function['name']!r:.40} is no JSON: {error}") from error
