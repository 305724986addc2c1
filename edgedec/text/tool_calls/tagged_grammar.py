"""Grammars of calls whose arguments stand between tags of their own: Qwen3-Coder's form, and GLM's.

A parameter that is a text is plain text up to its closing tag; another one is JSON under its schema.
Parameters come in the order of their schema, and optional ones may be left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgedec.core.quick_dataclass import dataclass

Literal = Callable[[str], str]
"""Spells a text as a grammar has it, with control tokens."""

_ROOT = frozenset(
    ("type", "properties", "required", "additionalProperties", "title", "description", "$schema", "$defs",
     "definitions", "default", "examples")
)  # fmt: skip
"""Keywords of a function's schema that the order of its parameters keeps."""
_TEXT = frozenset(("type", "enum", "const", "title", "description", "default", "examples"))
_NAME = re.compile(r"[\w.-]+")
_ANY = "/(?s:.*)/"


@dataclass(frozen=True, slots=True)
class TaggedForm:
    """The texts of a form: before and after a call, and around the value of each parameter.

    ``NAME`` and ``KEY`` stand for names. ``end`` closes a value, ``gap`` stands before that, and a line end
    behind it; ``close`` and ``after`` end a call. ``bare``: a part of ``before`` that may begin a call alone.
    """

    before: str
    key: str
    gap: str
    end: str
    close: str
    after: str = ""
    bare: str = ""

    @property
    def whole_end(self) -> str:
        """The text behind a value that is no text."""
        return f"{self.gap}{self.end}\n"


def tagged_rules(
    form: TaggedForm, functions: Sequence[Mapping[str, Any]], literal: Literal, spelling: Mapping[str, Any]
) -> list[str] | None:
    """Return a rule ``arguments_N`` for each function, from behind its name to the end of the call.

    None for a schema that the form cannot keep whole.
    """
    rules: list[str] = []
    for at, function in enumerate(functions):
        own = _arguments(form, at, function, literal, spelling)
        if own is None or not _NAME.fullmatch(str(function["name"])):
            return None
        rules += own
    return rules


def _arguments(
    form: TaggedForm, at: int, function: Mapping[str, Any], literal: Literal, spelling: Mapping[str, Any]
) -> list[str] | None:
    schema = function.get("parameters") or {"properties": {}}
    properties = schema.get("properties")
    if not properties and schema.get("additionalProperties") is not False and not function.get("strict"):
        return _until(f"arguments_{at}", form.close, form.after, literal)
    if not _ROOT.issuperset(schema) or not isinstance(properties, dict):
        return None
    required, parts, rules = schema.get("required") or (), [], list[str]()
    referred = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    for number, (key, own) in enumerate(properties.items()):
        name = f"value_{at}_{number}"
        value = _value(name, own, form, literal, {**referred, "x-guidance": spelling})
        if value is None or not _NAME.fullmatch(key):
            return None
        rules += value
        parts.append(f"({literal(form.key.replace('KEY', key))} {name}){'' if key in required else '?'}")
    if not set(required) <= set(properties):
        return None
    return [f"arguments_{at}: {' '.join([*parts, literal(form.close + form.after)])}", *rules]


def _value(
    name: str, schema: Any, form: TaggedForm, literal: Literal, more: Mapping[str, Any]
) -> list[str] | None:
    """Return the rule of a value with the tag behind it; None for one that cannot be kept."""
    if not isinstance(schema, dict):
        return None
    if schema.get("type") != "string":
        return [
            f"{name}: {name}_json {literal(form.whole_end)}",
            f"{name}_json: %json {_dumped({**schema, **more})}",
        ]
    if not _TEXT.issuperset(schema):
        return None
    given = [schema["const"]] if "const" in schema else schema.get("enum")
    if given is None:
        return _until(name, form.end, "\n", literal)
    if not given or not all(isinstance(one, str) and one for one in given):
        return None
    return [f"{name}: ({' | '.join(map(_dumped, given))}) {literal(form.whole_end)}"]


def _until(name: str, end: str, after: str, literal: Literal) -> list[str]:
    """Return the rule of any text up to the first ``end``, and ``after`` that."""
    spelled, rest = literal(end), f" {literal(after)}" if after else ""
    if spelled.startswith("<["):
        return [f"{name}: {_ANY} {spelled}{rest}"]
    return [f"{name}: {name}_text{rest}", f"{name}_text[lazy]: {_ANY} {spelled}"]


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
