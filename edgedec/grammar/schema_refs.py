"""References inside a JSON schema: where they lead, and whether a value of it can end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]
_MOST_SCHEMAS = 50_000
"""The compiler refuses a schema with more parts."""


def target_of(root: Schema, schema: Mapping[str, Any]) -> Any:
    """Return what the ``$ref`` of ``schema`` names in ``root``; None where that is nothing."""
    reference = schema.get("$ref")
    if reference in ("#", "#/"):
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for part in reference[2:].split("/"):
        if isinstance(found, list) and part.isdecimal():
            found = found[int(part)] if int(part) < len(found) else None
        else:
            found = found.get(part) if isinstance(found, dict) else None
    return found


def endless(root: Schema, schemas: Sequence[tuple[Schema, str]]) -> str | None:
    """Return the place of a schema of ``schemas`` that no finite value can have; None where there is none.

    ``schemas`` has every part that can be reached, with its place.
    """
    if len(schemas) > _MOST_SCHEMAS or not any("$ref" in schema for schema, _ in schemas):
        return None
    known: set[int] = set()
    left = list(schemas)
    while left:
        still = [one for one in left if not _ends(root, one[0], known)]
        if len(still) == len(left):
            return left[0][1]
        known |= {id(schema) for schema, _ in left} - {id(schema) for schema, _ in still}
        left = still
    return None


def _ends(root: Schema, schema: Schema, known: set[int]) -> bool:
    """Whether a value of ``schema`` can end, if those of the ``known`` ones can."""

    def can(part: Any) -> bool:
        return not isinstance(part, dict) or id(part) in known

    if not can(target_of(root, schema)):
        return False
    for keyword, enough in (("allOf", all), ("anyOf", any), ("oneOf", any)):
        parts = schema.get(keyword)
        if isinstance(parts, list) and parts and not enough(map(can, parts)):
            return False
    if "const" in schema or "enum" in schema:
        return True
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    if not {*map(str, types)} <= {"object", "array"}:
        return True
    return ("object" in types and all(map(can, _required(schema)))) or (
        "array" in types and all(map(can, _least_items(schema)))
    )


def _required(schema: Schema) -> list[Any]:
    own = schema.get("properties")
    own = own if isinstance(own, dict) else {}
    names = schema.get("required")
    names = names if isinstance(names, list) else []
    return [own.get(name, schema.get("additionalProperties")) for name in names if isinstance(name, str)]


def _least_items(schema: Schema) -> list[Any]:
    least = schema.get("minItems")
    if not isinstance(least, int) or least < 1:
        return []
    first = schema.get("prefixItems")
    first = first if isinstance(first, list) else []
    return [*first[:least], *([schema.get("items")] if least > len(first) else [])]
