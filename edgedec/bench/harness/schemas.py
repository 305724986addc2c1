"""JSON schemas of the kinds that people write: calls of functions, records, lists, choices, patterns, ranges.

Each family makes as many as are asked for, always the same ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

_NAMES = ("name", "id", "city", "unit", "count", "price", "tags", "due", "mail", "note", "kind", "on")
_WORDS = ("red", "green", "blue", "low", "high", "open", "done", "a b", 'q"q', "é", "\\", "")
_PATTERNS = (
    "^[A-Z]{2}[0-9]{3}$",
    "^a+b*$",
    "^(x|y)z?$",
    "[0-9]",
    "^\\d{1,3}(\\.\\d{1,3}){3}$",
    "^$",
    "^.{2,5}$",
)
_FORMATS = ("date", "date-time", "time", "ipv4", "uuid", "email", "hostname", "duration", "ipv6", "uri")


def _closed(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> Schema:
    wanted = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": wanted,
        "additionalProperties": False,
        **more,
    }


def _enum(rng: random.Random) -> Schema:
    values: list[Any] = [*rng.sample(_WORDS, rng.randint(1, 5)), rng.randint(-9, 99), None, True, 1.5]
    return {"enum": rng.sample(values, rng.randint(1, len(values)))}


def _number(rng: random.Random) -> Schema:
    low = rng.choice([-1000, -12, 0, 1, 7, 99])
    bounds: dict[str, Any] = rng.choice([
        {"minimum": low, "maximum": low + rng.choice([0, 1, 9, 10, 12345])},
        {"exclusiveMinimum": low, "exclusiveMaximum": low + rng.choice([2, 11, 1000])},
        {"minimum": low},
        {"maximum": low},
        {"minimum": low + 0.25, "maximum": low + 2.5},
    ])  # fmt: skip
    kind = rng.choice(["integer", "number"])
    if kind == "integer":
        bounds = {key: int(value) for key, value in bounds.items()}
        if rng.random() < 0.2:
            return {"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": rng.choice([2, 5, 10])}
    return {"type": kind, **bounds}


def _string(rng: random.Random) -> Schema:
    return rng.choice([
        {"type": "string", "pattern": rng.choice(_PATTERNS)},
        {"type": "string", "maxLength": rng.randint(1, 12)},
        {"type": "string", "minLength": (low := rng.randint(0, 4)), "maxLength": low + rng.randint(0, 6)},
        {"type": "string", "format": rng.choice(_FORMATS)},
    ])  # fmt: skip


def _type(rng: random.Random) -> Schema:
    return {"type": rng.choice(["boolean", "null"])}


def _leaf(rng: random.Random) -> Schema:
    return rng.choice([_enum, _number, _string, _type])(rng)


def _array(rng: random.Random) -> Schema:
    low = rng.randint(0, 2)
    if rng.random() < 0.3:
        return {"type": "array", "prefixItems": [_leaf(rng), _leaf(rng)], "items": False, "minItems": 2}
    return {"type": "array", "items": _leaf(rng), "minItems": low, "maxItems": low + rng.randint(0, 3)}


def _const(rng: random.Random) -> Schema:
    return {"const": rng.choice([{"a": [1, None]}, "x", 12, [True], "", {"b": {"c": "d"}}])}


def _call(rng: random.Random) -> Schema:
    """As a tool's parameters: names, some required."""
    names = rng.sample(_NAMES, rng.randint(1, 4))
    return {
        "type": "object",
        "properties": {
            "name": {"const": f"get_{names[0]}"},
            "arguments": _closed({name: _leaf(rng) for name in names}, rng.sample(names, 1)),
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _nested(rng: random.Random, depth: int = 0) -> Schema:
    names = rng.sample(_NAMES, rng.randint(1, 3))
    deeper = depth < rng.randint(1, 3)
    return _closed({
        name: _nested(rng, depth + 1) if deeper and rng.random() < 0.5 else rng.choice([_leaf, _array])(rng)
        for name in names
    })  # fmt: skip


def _any_of(rng: random.Random) -> Schema:
    return {"anyOf": [_leaf(rng) for _ in range(rng.randint(2, 4))]}


def _one_of(rng: random.Random) -> Schema:
    """Told apart by a constant, or by the type."""
    if rng.random() < 0.3:
        return {
            "oneOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"type": "boolean"}, {"type": "null"}]
        }
    kinds = rng.sample(_WORDS[:6], 3)
    return {"oneOf": [_closed({"kind": {"const": kind}, "value": _leaf(rng)}) for kind in kinds]}


def _all_of(rng: random.Random) -> Schema:
    first, second = rng.sample(_NAMES, 2)
    return {
        "allOf": [
            {"type": "object", "properties": {first: _number(rng)}, "required": [first]},
            {"type": "object", "properties": {second: _enum(rng)}, "required": [second]},
        ],
        "type": "object",
        "maxProperties": 2,
    } if rng.random() < 0.2 else {
        "type": "object",
        "allOf": [
            {"properties": {first: _number(rng), second: True}, "required": [first]},
            {"properties": {second: _string(rng)}, "required": [second]},
        ],
    }  # fmt: skip


def _recursive(rng: random.Random) -> Schema:
    name = rng.choice(_NAMES)
    child = {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": rng.randint(0, 2)}
    return {"$ref": "#/$defs/node", "$defs": {"node": _closed({name: _leaf(rng), "next": child})}}


def _referring(rng: random.Random) -> Schema:
    names = rng.sample(_NAMES, 2)
    places = {name: {"$ref": "#/definitions/part"} for name in names}
    return _closed(places) | {"definitions": {"part": rng.choice([_leaf, _array, _nested])(rng)}}


def _additional(rng: random.Random) -> Schema:
    return {"type": "object", "additionalProperties": _leaf(rng), "properties": {"id": _leaf(rng)}}


def _by_pattern(rng: random.Random) -> Schema:
    return {
        "type": "object",
        "patternProperties": {"^x_": _number(rng), "^y_[a-c]$": _enum(rng)},
        "additionalProperties": False,
    }


def _nullable(rng: random.Random) -> Schema:
    return {
        "type": rng.choice([["string", "null"], ["integer", "null"], ["boolean", "null"]]),
        "maxLength": 5,
    }


FAMILIES: dict[str, Callable[[random.Random], Schema]] = {
    "call": _call, "nested": _nested, "array": _array, "enum": _enum, "string": _string, "number": _number,
    "const": _const, "anyOf": _any_of, "oneOf": _one_of, "allOf": _all_of, "recursive": _recursive,
    "ref": _referring, "additional": _additional, "pattern": _by_pattern, "nullable": _nullable,
}  # fmt: skip


def schemas(family: str, count: int) -> list[Schema]:
    """Return the first ``count`` schemas of a family."""
    return [FAMILIES[family](random.Random(f"{family} {number}")) for number in range(count)]
