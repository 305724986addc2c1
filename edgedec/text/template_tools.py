"""Tools in chat templates: whether a template writes them, and in which form it reads calls.

Templates do not state it. So a probe is rendered, and its words are looked for in the result. Likewise for
system messages that stand after others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgedec.core.errors import TemplateError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.tool_calls.families import FAMILIES, family_of
from edgedec.text.tool_calls.family import Family

Render = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], str]
"""Renders messages with tools; raises TemplateError."""

_NAME, _KEY, _VALUE = "probe_function", "probe_key", "probe_value"
_CUT = "probe_cut"
_USER = {"role": "user", "content": "probe_question"}
_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "probe_description",
        "parameters": {"type": "object", "properties": {_KEY: {"type": "string", "description": "probe"}}},
    },
}
_HINT = "leave the tools out, or use a model whose template writes them"


@dataclass(frozen=True, slots=True)
class ToolForms:
    """Abilities of a template: ``declares`` tools, writes ``calls``, takes their arguments as ``text``.

    ``cut``: it also takes arguments that are a text where they should be values. ``family`` is the form in
    which its model writes calls; None for one that is not known.
    """

    declares: bool
    calls: bool
    text: bool
    cut: bool
    family: Family | None

    def check(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> None:
        """Raise UnsupportedError for a conversation of which the template would drop a part."""
        if tools and not self.declares:
            raise UnsupportedError("the chat template of this model knows no tools", hint=_HINT)
        writes = self.calls or (self.family and self.family.written("f", {}))
        if not writes and any(message.get("tool_calls") for message in messages):
            raise UnsupportedError("the chat template of this model knows no tool calls", hint=_HINT)

    def ready(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return copies of messages with calls in the form that the template takes.

        For a template that drops calls they are content, as the model wrote them. Arguments that are a text
        become an object with that text as ``arguments``, where the template cannot take them as they are.
        """
        if not self.cut:
            messages = [_with_arguments(message, _as_object) for message in messages]
        if not self.calls:
            return [self._as_content(message) for message in messages]
        return [_with_arguments(message, _as_text) if self.text else dict(message) for message in messages]

    def _as_content(self, message: Mapping[str, Any]) -> dict[str, Any]:
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        found = {key: value for key, value in message.items() if key != "tool_calls"}
        if calls and self.family:
            written = [self.family.written(call["name"], call["arguments"]) or "" for call in calls]
            found["content"] = "\n".join([message["content"], *written]).strip("\n")
        return found


def tool_forms(render: Render, source: str) -> ToolForms:
    """Find the abilities of the template ``source`` by rendering probes."""
    declares = _NAME in _rendered(render, [_USER], [_TOOL])
    tools = [_TOOL] if declares else []
    for text in (False, True):
        turn = _with_arguments(_call_turn(), _as_text) if text else _call_turn()
        answer = {"role": "tool", "name": _NAME, "tool_call_id": "probe0001", "content": "probe_result"}
        shown = _rendered(render, [_USER, turn, answer], tools)
        if _VALUE in shown and _KEY in shown and shown.count(_NAME) > declares:
            family = _family(shown, _rendered(render, [_USER], tools), source)
            cut = _with_arguments(turn, lambda _: _CUT)
            return ToolForms(
                declares, True, text, _CUT in _rendered(render, [_USER, cut, answer], tools), family
            )
    return ToolForms(declares, False, False, False, family_of(source))


def keeps_system(render: Render) -> bool:
    """Return whether a template writes a system message where it stands, after other messages."""
    texts = ["probe_first", "probe_question", "probe_answer", "probe_later", "probe_next"]
    roles = ["system", "user", "assistant", "system", "user"]
    turns = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    shown = _rendered(render, turns, [])
    places = [shown.find(text) for text in texts]
    return -1 not in places and places == sorted(places) and shown.count("probe_later") == 1


def _family(shown: str, prompt: str, source: str) -> Family | None:
    """Find the family that reads the probe's call, first among those that the source names."""
    shared = next((at for at, (a, b) in enumerate(zip(shown, prompt, strict=False)) if a != b), len(prompt))
    samples = [shown[shared:], shown.rpartition(_USER["content"])[2]]
    named = [family for family in FAMILIES if family.knows(source)]
    for family in dict.fromkeys([*named, *FAMILIES]):
        if any(family.reads(sample, _NAME, {_KEY: _VALUE}) for sample in samples):
            return family
    return None


def _call_turn() -> dict[str, Any]:
    function = {"name": _NAME, "arguments": {_KEY: _VALUE}}
    call = {"id": "probe0001", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _with_arguments(message: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a message with the arguments of its calls changed."""
    if not message.get("tool_calls"):
        return dict(message)
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        calls.append({**call, "function": {**function, "arguments": change(function["arguments"])}})
    return {**message, "tool_calls": calls}


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _as_object(arguments: Any) -> Any:
    return {"arguments": arguments} if isinstance(arguments, str) else arguments


def _rendered(render: Render, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
    try:
        return render(messages, tools)
    except TemplateError:
        return ""
