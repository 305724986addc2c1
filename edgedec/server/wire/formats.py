"""The form that a reply is to have: text, JSON, or JSON of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.grammar import GrammarSpec
from edgedec.server.wire.body import short
from edgedec.server.wire.errors import invalid

_KINDS = ("text", "json_object", "json_schema")
_PARTS = {"name", "description", "schema", "strict"}


def grammar_of(given: Any, where: str = "response_format") -> GrammarSpec | None:
    """Return the grammar of a format; None for plain text. Raises ApiError.

    A schema lies in ``json_schema``, as chats have it, or in the format itself, as responses have it. Type
    "json_object" may have one, too, as in other servers. ``form_sampling`` lies in the format itself.
    """
    found = _form_of(given, where)
    if found is None or "form_sampling" not in given:
        return found
    try:
        return replace(found, sampling=given["form_sampling"])
    except UsageError as error:
        raise invalid(f"{where}.form_sampling: {error}", f"{where}.form_sampling") from None


def _form_of(given: Any, where: str) -> GrammarSpec | None:
    if given is None:
        return None
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind not in _KINDS:
        raise invalid(f"{where}.type should be one of {', '.join(_KINDS)}", f"{where}.type")
    if kind == "text":
        return None
    if kind == "json_object" and given.get("schema") is None:
        return GrammarSpec.json_object()
    if "json_schema" in given:
        given, where = given["json_schema"], f"{where}.json_schema"
    else:
        given = {name: one for name, one in given.items() if name != "form_sampling"}
    return _of_schema(given, where)


def _of_schema(given: Any, where: str) -> GrammarSpec:
    schema = given.get("schema") if isinstance(given, Mapping) else None
    if not isinstance(schema, Mapping):
        raise invalid(f"{where}.schema should be a JSON schema, an object", f"{where}.schema")
    if unknown := [name for name in given if name not in _PARTS and name != "type"]:
        raise invalid(f"{where}.{short(unknown[0])} is not supported", where, "unsupported_parameter")
    try:
        return GrammarSpec.json_schema(schema)
    except UsageError as error:
        raise invalid(f"{where}.schema: {error}", f"{where}.schema") from None
