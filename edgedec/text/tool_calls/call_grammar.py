"""Grammars, in Lark's form, of replies with calls of tools: exactly one call, or text and calls as they come.

Arguments keep the JSON schema of their function.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgedec.core.errors import UnsupportedError
from edgedec.text.control_tokens import split_special
from edgedec.text.tool_calls.family import Family

_SPELLING = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
"""JSON as Python writes it, and so as templates do: the call is read again as it was written."""
_NO_MARK = "\ufdd0"


def call_grammar(
    family: Family, functions: Sequence[Mapping[str, Any]], control: Mapping[str, int], thought_end: str = ""
) -> str:
    """Return the grammar of a call of one of ``functions``.

    ``control`` has the ids of control tokens by their texts. ``thought_end``: the reply begins in its
    thinking part, which that text ends. Raises UnsupportedError for a form of calls that is not JSON.
    """
    if family.around is None:
        raise UnsupportedError(
            "this model's form of tool calls has no grammar", hint='use the tool choice "auto"'
        )
    calls = " | ".join(f"call_{at}" for at in range(len(functions)))
    rules = [f"start: {'thought ' if thought_end else ''}({calls})"]
    if thought_end in control:
        rules.append(f"thought: /(?s:.*)/ {_literal(thought_end, control)} /\\n*/")
    elif thought_end:
        rules.append(f"thought: text /\\n*/\ntext[suffix={json.dumps(thought_end)}]: /(?s:.*)/")
    for at, function in enumerate(functions):
        before, after = family.around(function["name"])
        rules.append(f"call_{at}: {_literal(before, control)} {_rest(function, after, control)}")
    return "\n".join(rules) + "\n"


def strict_grammar(
    family: Family, functions: Sequence[Mapping[str, Any]], control: Mapping[str, int]
) -> str | None:
    """Return the grammar of text with any calls of ``functions``; those that are not strict are free.

    None for a form in which no tag begins a call.
    """
    tag = family.control[0] if family.around and family.control else ""
    calls = [family.around(one["name"]) for one in functions] if family.around else []
    if not tag or not all(before.startswith(tag) for before, _ in calls):
        return None
    begin = f"TEXT {_literal(tag, control)}" if tag in control else "tagged"
    names = " | ".join(f"call_{at}" for at in range(len(functions)))
    rules = [f"start: ({names})* TEXT", "TEXT: /(?s:.*)/"]
    if tag not in control:
        rules.append(f"tagged[lazy]: TEXT {json.dumps(tag)}")
    for at, (function, (before, after)) in enumerate(zip(functions, calls, strict=True)):
        own = function if function.get("strict") else {"parameters": {"type": "object"}}
        rest = _rest(own, after, control)
        rules.append(f"call_{at}: {begin} {_literal(before.removeprefix(tag), control)} {rest}")
    return "\n".join(rules) + "\n"


def _rest(function: Mapping[str, Any], after: str, control: Mapping[str, int]) -> str:
    return f"%json {json.dumps(_schema(function), ensure_ascii=False)} {_literal(after, control)}"


def _schema(function: Mapping[str, Any]) -> dict[str, Any]:
    given = function.get("parameters") or {"properties": {}, "additionalProperties": False}
    return {"type": "object", **given, "x-guidance": _SPELLING}


def _literal(text: str, control: Mapping[str, int]) -> str:
    parts = split_special(text, control, _NO_MARK)
    return " ".join(
        f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False) for part in parts
    )
