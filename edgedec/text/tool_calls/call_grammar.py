"""A grammar, in Lark's form, of replies that are exactly one call of a tool."""

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
    """Return the grammar of a call of one of ``functions``, with arguments that keep its schema.

    ``control`` has the ids of control tokens by their texts. ``thought_end``: the reply begins in its
    thinking part, which that text ends. Raises UnsupportedError for a form of calls that is not JSON.
    """
    if family.around is None:
        raise UnsupportedError(
            "this model's form of tool calls has no grammar", hint='use the tool choice "auto"'
        )
    calls = [f"call_{at}" for at in range(len(functions))]
    rules = [f"start: {'thought ' if thought_end else ''}({' | '.join(calls)})"]
    if thought_end in control:
        rules.append(f"thought: /(?s:.*)/ {_literal(thought_end, control)} /\\n*/")
    elif thought_end:
        rules.append(f"thought: text /\\n*/\ntext[suffix={json.dumps(thought_end)}]: /(?s:.*)/")
    for call, function in zip(calls, functions, strict=True):
        before, after = family.around(function["name"])
        schema = json.dumps(_schema(function), ensure_ascii=False)
        rules.append(f"{call}: {_literal(before, control)} {call}_arguments {_literal(after, control)}")
        rules.append(f"{call}_arguments: %json {schema}")
    return "\n".join(rules) + "\n"


def _schema(function: Mapping[str, Any]) -> dict[str, Any]:
    given = function.get("parameters") or {"properties": {}, "additionalProperties": False}
    return {"type": "object", **given, "x-guidance": _SPELLING}


def _literal(text: str, control: Mapping[str, int]) -> str:
    parts = split_special(text, control, _NO_MARK)
    return " ".join(
        f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False) for part in parts
    )
