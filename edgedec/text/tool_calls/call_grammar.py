"""Grammars, in Lark's form, of replies with calls of tools: exactly one call, or text and calls as they come.

Arguments keep the JSON schema of their function.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgedec.core.errors import UnsupportedError
from edgedec.text.control_tokens import split_special
from edgedec.text.tool_calls.family import Family

_SPELLING = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
"""JSON as Python writes it, and so as templates do: the call is read again as it was written."""
_LOOSE = {"whitespace_flexible": True, "whitespace_pattern": r"[ ]|\n[ \t]{0,40}"}
"""JSON as a model writes it where it leaves out the tags."""
_NAME = re.compile(r"[\w-]+")
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
    owns = [one if one.get("strict") else {"parameters": {"type": "object"}} for one in functions]
    names = [str(one["name"]) for one in functions]
    first = family.untagged and all(map(_NAME.fullmatch, names))
    rules = ["TEXT: /(?s:.*)/", *_begins("begin", "TEXT", tag, control)]
    if first:
        rules += [f"start: untagged | FIRST | first ({_any(calls, 'rest')}) ({_any(calls, 'call')})* TEXT"]
        rules += [f"FIRST: /(?s:.*)/ & ~/{_untagged('|'.join(names), doubled=True)}(?s:.*)/"]
        rules += [*_begins("first", "FIRST", tag, control), f"untagged: {_any(calls, 'untagged')}"]
    else:
        rules += [f"start: ({_any(calls, 'call')})* TEXT"]
    for at, (own, (before, after)) in enumerate(zip(owns, calls, strict=True)):
        rules.append(f"rest_{at}: {_literal(before.removeprefix(tag), control)} {_rest(own, after, control)}")
        rules.append(f"call_{at}: begin rest_{at}")
        if first:
            rules.append(f"untagged_{at}: UNTAGGED_{at} {_json(own, _LOOSE)} /\\s*\\}}(\\s*```)?\\s*/")
            rules.append(f'UNTAGGED_{at}: /{_untagged(names[at])}\\s*,\\s*"arguments"\\s*:\\s*/')
    return "\n".join(rules) + "\n"


def _begins(rule: str, text: str, tag: str, control: Mapping[str, int]) -> list[str]:
    """Return the rule of a text up to a tag."""
    if tag in control:
        return [f"{rule}: {text} {_literal(tag, control)}"]
    return [f"{rule}[lazy]: {text} {json.dumps(tag)}"]


def _untagged(names: str, *, doubled: bool = False) -> str:
    """Return the expression of a call without its tag, up to the name: alone, or in a fence."""
    braces = r"\{+" if doubled else r"\{"
    return rf'\s*(```json\n)?\s*{braces}\s*"name"\s*:\s*"({names})"'


def _any(calls: Sequence[object], rule: str) -> str:
    return " | ".join(f"{rule}_{at}" for at in range(len(calls)))


def _rest(function: Mapping[str, Any], after: str, control: Mapping[str, int]) -> str:
    return f"{_json(function, _SPELLING)} {_literal(after, control)}"


def _json(function: Mapping[str, Any], spelling: Mapping[str, Any]) -> str:
    given = function.get("parameters") or {"properties": {}, "additionalProperties": False}
    schema = {"type": "object", **given, "x-guidance": spelling}
    return f"%json {json.dumps(schema, ensure_ascii=False)}"


def _literal(text: str, control: Mapping[str, int]) -> str:
    parts = split_special(text, control, _NO_MARK)
    return " ".join(
        f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False) for part in parts
    )
