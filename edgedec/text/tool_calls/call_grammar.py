"""Grammars, in Lark's form, of replies with calls of tools.

They allow exactly one call, text with calls as they come, or JSON in place of calls. Arguments keep the
JSON schema of their function.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgedec.core.errors import UnsupportedError
from edgedec.text.added_tokens import AddedToken, cut_at_special
from edgedec.text.tool_calls.family import Family
from edgedec.text.tool_calls.tagged_grammar import TaggedForm, tagged_rules

_SPELLING = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
"""JSON as Python writes it, and so as templates do: the call is read again as it was written."""
_LOOSE = {"whitespace_flexible": True, "whitespace_pattern": r"[ ]|\n[ \t]{0,40}"}
"""JSON as a model writes it where it leaves out the tags."""
_REFERRED = ("$defs", "definitions")
"""Parts of a schema to which others refer from its root."""
_NAME = re.compile(r"[\w-]+")


def call_grammar(
    family: Family, functions: Sequence[Mapping[str, Any]], control: Mapping[str, int], thought_end: str = ""
) -> str:
    """Return the grammar of a call of one of ``functions``.

    ``control`` has the ids of control tokens by their texts. ``thought_end``: the reply begins in its
    thinking part, which that text ends. Raises UnsupportedError for a form without a grammar, and for
    schemas that it does not keep.
    """
    if family.tagged:
        rules = _between_tags(family.tagged, "", functions, control)
        if rules is None:
            raise UnsupportedError(
                "the form of this model's calls cannot keep the schema of a tool",
                hint='use plain types in it, or the tool choice "auto"',
            )
        return "\n".join(_thought(f"({_any(functions, 'call')})", thought_end, control) + rules) + "\n"
    if family.around is None:
        raise UnsupportedError(
            "this model's form of tool calls has no grammar", hint='use the tool choice "auto"'
        )
    rules = _thought(f"({_any(functions, 'call')})", thought_end, control)
    return "\n".join(rules + _calls(family.around, functions, control)) + "\n"


def form_or_calls(
    family: Family,
    functions: Sequence[Mapping[str, Any]],
    control: Mapping[str, int],
    schema: Mapping[str, Any],
    thought_end: str = "",
) -> str:
    """Return the grammar of JSON under ``schema``, or of calls of ``functions`` in its place.

    ``control`` and ``thought_end`` are as in ``call_grammar``. A call in a form that is not JSON is free
    behind the tag that begins it. Raises UnsupportedError for a form without both.
    """
    bare = family.around if family.untagged else None
    rules = _thought(f"(form | calls{' | bare' if bare else ''})", thought_end, control)
    rules.append(f"form: %json {_text(schema, _LOOSE)}")
    if bare:
        objects = [_as_json(*bare(one["name"]), one) for one in functions]
        rules += [
            f"bare: {_any(functions, 'bare')}",
            *(f"bare_{at}: {one}" for at, one in enumerate(objects)),
        ]
    if family.around:
        calls = _any(functions, "call")
        rules.append(f"calls: ({calls}) (/\\n{{0,2}}/ ({calls}))*")
        rules += _calls(family.around, functions, control, beside_json=True)
    elif family.control:
        rules.append(f"calls: {_literal(family.control[0], control)} /(?s:.*)/")
    else:
        raise UnsupportedError(
            "this model's calls of tools cannot be told from JSON", hint="ask for one of both"
        )
    return "\n".join(rules) + "\n"


def strict_grammar(
    family: Family,
    functions: Sequence[Mapping[str, Any]],
    control: Mapping[str, int],
    thinking: tuple[str, str] = ("", ""),
) -> str | None:
    """Return the grammar of text with any calls of ``functions``.

    ``thinking``: the tags of the thinking part, which may stand before it. None for a form in which nothing
    tells where a call begins.
    """
    if family.tagged:
        rules = _between_tags(family.tagged, family.control[0], functions, control)
        return _with_thought(rules, thinking, control) if rules else None
    calls = [family.around(one["name"]) for one in functions] if family.around else []
    if not calls or not family.control:
        return None
    tag = family.control[0]
    names = [str(one["name"]) for one in functions]
    plain = all(map(_NAME.fullmatch, names))
    if all(before.startswith(tag) for before, _ in calls):
        rules = _tagged_rules(family, functions, calls, control, first=family.untagged and plain)
    elif plain and tag in control and all(before.startswith("{") for before, _ in calls):
        rules = _object_rules(functions, calls, _literal(tag, control))
    else:
        return None
    return _with_thought(rules, thinking, control)


def _with_thought(rules: Sequence[str], thinking: tuple[str, str], control: Mapping[str, int]) -> str:
    """Return the grammar of a reply by its rules, perhaps behind a thinking part between control tokens."""
    begin, end = thinking
    if end in control:
        before = f"({_literal(begin, control)})? " if begin in control else ""
        start = f"start: ({before}TEXT {_literal(end, control)})? reply | {before}TEXT"
    else:
        start = "start: reply"
    return "\n".join([*rules, start, "TEXT: /(?s:.*)/"]) + "\n"


def _between_tags(
    form: TaggedForm, tag: str, functions: Sequence[Mapping[str, Any]], control: Mapping[str, int]
) -> list[str] | None:
    """Return the rules of text with calls whose arguments have tags; None for schemas beyond these.

    Without a ``tag`` that begins them, the calls alone.
    """

    def literal(text: str) -> str:
        return _literal(text, control)

    strict = any(one.get("strict") for one in functions)
    own = tagged_rules(form, functions, literal, {**_LOOSE, "coerce_one_of": not strict})
    if own is None:
        return None
    rules, bare = own, form.bare if tag else ""
    if tag:
        rules += [f"reply: ({_any(functions, 'call')})* TEXT", *_begins("begin", "TEXT", tag, control)]
    if bare:
        rules += _begins("bare", "TEXT", bare, control)
    for at, function in enumerate(functions):
        before = form.before.replace("NAME", function["name"])
        begin = f"begin {literal(before.removeprefix(tag))}" if tag else literal(before)
        rule = f"call_{at}: {begin} arguments_{at}"
        if bare:
            rule += f" | bare {literal(before.partition(bare)[2])} arguments_{at}"
        rules.append(rule)
    return rules


def _tagged_rules(
    family: Family,
    functions: Sequence[Mapping[str, Any]],
    calls: Sequence[tuple[str, str]],
    control: Mapping[str, int],
    *,
    first: bool,
) -> list[str]:
    """Return the rules of a reply in which a tag begins a call; with ``first`` it may lack that one."""
    tag, names = family.control[0], "|".join(str(one["name"]) for one in functions)
    rules = _begins("begin", "TEXT", tag, control)
    if first:
        rules += [f"reply: untagged | FIRST | first ({_any(calls, 'rest')}) ({_any(calls, 'call')})* TEXT"]
        rules += [f"FIRST: /(?s:.*)/ & ~/{_untagged(names, doubled=True)}(?s:.*)/"]
        rules += [*_begins("first", "FIRST", tag, control), f"untagged: {_any(calls, 'untagged')}"]
    else:
        rules += [f"reply: ({_any(calls, 'call')})* TEXT"]
    for at, (own, (before, after)) in enumerate(zip(functions, calls, strict=True)):
        rules.append(f"rest_{at}: {_literal(before.removeprefix(tag), control)} {_rest(own, after, control)}")
        rules.append(f"call_{at}: begin rest_{at}")
        if first:
            rules.append(f"untagged_{at}: UNTAGGED_{at} {_json(own, _LOOSE)} /\\s*\\}}(\\s*```)?\\s*/")
            rules.append(f'UNTAGGED_{at}: /{_untagged(own["name"])}\\s*,\\s*"arguments"\\s*:\\s*/')
    return rules


def _object_rules(
    functions: Sequence[Mapping[str, Any]], calls: Sequence[tuple[str, str]], tag: str
) -> list[str]:
    """Return the rules of a reply that is text, or calls that are objects, the first perhaps behind a tag."""
    names = "|".join(str(one["name"]) for one in functions)
    name = r'\s*\{\s*"name"\s*:\s*"(%s)"'
    objects = _any(calls, "object")
    rules = [f"reply: FIRST | {tag}? ({objects}) (/\\s*;\\s*/ ({objects}))* /\\s*/"]
    rules += [f"FIRST: /(?s:.*)/ & ~/{name % names}(?s:.*)/"]
    for at, (own, (before, _)) in enumerate(zip(functions, calls, strict=True)):
        key = list(json.loads(f"{before}{{}}}}"))[-1]
        rules.append(f"object_{at}: OBJECT_{at} {_json(own, _LOOSE)} /\\s*\\}}/")
        rules.append(f'OBJECT_{at}: /{name % own["name"]}\\s*,\\s*"{key}"\\s*:\\s*/')
    return rules


def _thought(answer: str, end: str, control: Mapping[str, int]) -> list[str]:
    """Return the rules of a reply that begins in its thinking part, where ``end`` is its end."""
    if not end:
        return [f"start: {answer}"]
    if end in control:
        return [f"start: thought {answer}", f"thought: /(?s:.*)/ {_literal(end, control)} /\\n*/"]
    text = f"text[suffix={json.dumps(end)}]: /(?s:.*)/"
    return [f"start: thought {answer}", "thought: text /\\n*/", text]


def _calls(
    around: Callable[[str], tuple[str, str]],
    functions: Sequence[Mapping[str, Any]],
    control: Mapping[str, int],
    *,
    beside_json: bool = False,
) -> list[str]:
    """Return a rule for the call of each function.

    ``beside_json``: a call that is an object itself is one by a schema, for other JSON may begin likewise.
    """
    rules = []
    for at, function in enumerate(functions):
        before, after = around(function["name"])
        if beside_json and before.startswith("{"):
            rules.append(f"call_{at}: {_as_json(before, after, function)}")
        else:
            rules.append(f"call_{at}: {_literal(before, control)} {_rest(function, after, control)}")
    return rules


def _as_json(before: str, after: str, function: Mapping[str, Any]) -> str:
    """Return the call within ``before`` and ``after`` as an object of a schema, without tags."""
    text = f"{before}{{}}{after}"
    given = json.loads(text[text.index("{") : text.rindex("}") + 1])
    own = {name: {"const": value} if value else parameters_of(function) for name, value in given.items()}
    schema = {"type": "object", "properties": own, "required": [*own], "additionalProperties": False}
    schema |= {name: value for name, value in parameters_of(function).items() if name in _REFERRED}
    return f"%json {_text(schema, {**_LOOSE, 'coerce_one_of': not function.get('strict')})}"


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
    # A function that is not strict asks for arguments that are close to its schema.
    return (
        f"%json {_text(parameters_of(function), {**spelling, 'coerce_one_of': not function.get('strict')})}"
    )


def _text(schema: Mapping[str, Any], spelling: Mapping[str, Any]) -> str:
    return json.dumps({**schema, "x-guidance": spelling}, ensure_ascii=False)


def parameters_of(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments."""
    given = function.get("parameters") or {"properties": {}, "additionalProperties": False}
    return {"type": "object", **given}


def _literal(text: str, control: Mapping[str, int]) -> str:
    parts = cut_at_special(text, {id: AddedToken(one, special=True) for one, id in control.items()}, ())
    return " ".join(
        f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False) for part in parts
    )
