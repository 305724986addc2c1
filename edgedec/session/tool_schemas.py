"""Functions whose schemas a grammar can keep to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.grammar.matcher import try_arguments
from edgedec.grammar.supported_schema import supported_schema
from edgedec.text.tool_calls.call_grammar import parameters_of

Function = Mapping[str, Any]
_ANY = {"type": "object"}


def kept_functions(functions: Sequence[Function]) -> tuple[list[Function], tuple[str, ...]]:
    """Return ``functions`` with schemas that a grammar can keep to, and what was left out of them, by name.

    Keywords that cannot be kept are left out of a function that is not strict. Raises UsageError that names
    the function for one whose schema cannot be used even so.
    """
    kept: list[Function] = []
    left_out: list[str] = []
    for function in functions:
        name, loose = repr(str(function.get("name")))[:60], not function.get("strict")
        try:
            found = supported_schema(_json(function), loose=loose)
            try_arguments(found.text, loose=loose)
        except UsageError as error:
            raise UsageError(f"the tool {name}: {error.message}", hint=error.hint) from error
        kept.append({**function, "parameters": json.loads(found.text)})
        left_out += [f"{one} of the tool {name}" for one in found.left_out]
    return kept, tuple(left_out)


def bound_functions(
    functions: Sequence[Function], *, bind: bool = False
) -> tuple[list[Function], tuple[str, ...]]:
    """Return ``functions`` as calls that come as they like are kept to, and what was left out of schemas.

    Those that are not strict take any arguments; with ``bind`` they keep theirs as far as a grammar can.
    Raises UsageError for a strict one that no grammar can keep to.
    """
    found: list[Function] = []
    left_out: list[str] = []
    for function in functions:
        own: list[Function] = [{**function, "parameters": _ANY}]
        lost: tuple[str, ...] = ()
        if function.get("strict"):
            own, lost = kept_functions([function])
        elif bind:
            try:
                own, lost = kept_functions([function])
            except UsageError:
                lost = (f"the arguments of the tool {str(function.get('name'))[:60]!r}",)
        found += own
        left_out += lost
    return found, tuple(left_out)


def _json(function: Function) -> str:
    try:
        return json.dumps(parameters_of(function), ensure_ascii=False)
    except RecursionError as error:
        raise UsageError("its JSON schema is nested too deep", hint="use a flatter one") from error
