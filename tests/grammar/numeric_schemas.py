"""Schemas of numbers at random: bounds of every size, factors, constants, and several of them at once."""

from __future__ import annotations

import random
from typing import Any

KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "const", "enum")
_EDGES = [
    0,
    1,
    9,
    10,
    99,
    2**31,
    2**32,
    2**53,
    2**62,
    2**63 - 1024,
    2**63,
    2**64,
    10**18,
    10**19,
    10**30,
    10**300,
]
_FRACTIONS = [0.1, 0.5, 1e-7, 2.5, 99.99, 5e-324, 1e-300, 123456.789, 1e22]
_FACTORS = [1, 2, 3, 7, 10, 0.5, 0.1, 0.01, 0.25, 1000, 2**32, 0, -2, 1e-12, 1e300]

Schema = dict[str, Any]


def number(rng: random.Random) -> int | float:
    found: int | float
    if rng.random() < 0.2:
        found = rng.choice(_FRACTIONS)
    elif rng.random() < 0.3:
        found = rng.getrandbits(rng.randint(1, 70))
    else:
        found = rng.choice(_EDGES) + rng.choice([0, 0, -1, 1, 2, -1024, 1024])
    found = float(found) if rng.random() < 0.3 else found
    return -found if rng.random() < 0.5 else found


def numeric_schema(rng: random.Random, depth: int = 2) -> Schema:
    found: Schema = {}
    if rng.random() < 0.9:
        found["type"] = rng.choice(
            ["integer", "integer", "number", ["integer", "null"], ["number", "integer"]]
        )
    for keyword in KEYWORDS[:4]:
        if rng.random() < 0.35:
            found[keyword] = number(rng)
    if rng.random() < 0.15:
        found["multipleOf"] = rng.choice(_FACTORS)
    if rng.random() < 0.1:
        found["const"] = number(rng)
    if rng.random() < 0.1:
        found["enum"] = [number(rng) for _ in range(rng.randint(1, 3))]
    if depth and rng.random() < 0.25:
        parts = [numeric_schema(rng, depth - 1) for _ in range(rng.randint(1, 2))]
        found[rng.choice(["allOf", "anyOf"])] = parts
    if depth and rng.random() < 0.15:
        found = {
            "type": "object",
            "properties": {"a": found},
            "required": ["a"],
            "additionalProperties": False,
        }
    return found


def candidates(schema: Schema, rng: random.Random) -> list[str]:
    """Texts of numbers at the edges of a schema, some of them outside."""
    found: list[str] = ["0", "1", "-1", "12345", "9" * 19, "1.5", "1e3"]
    todo: list[Any] = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, dict | list):
            todo += one.values() if isinstance(one, dict) else one
        elif isinstance(one, int | float) and not isinstance(one, bool):
            for step in (0, 1, -1, 100, -100, 1024, -1024):
                near = int(one) + step
                found += [str(near), f"{near}.0", f"{near}.25"]
            found.append(repr(one))
    return rng.sample(found, min(len(found), 40))
