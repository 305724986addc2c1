"""Requests for replies of a form, which every host answers with the same tokens."""

from __future__ import annotations

import json
from typing import Any

from edgedec.sampling import DrawParams
from tests.native.cases import Case

TEXT = "hello world hello world hello"
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "colour": {"enum": ["red", "green", "blue"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2},
        "note": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    },
    "required": ["name", "age", "colour", "tags", "note"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer", "minimum": -9, "maximum": 9},
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["value", "next"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}
SCHEMAS = [PERSON, TREE, {"type": "object"}, {"type": "array", "items": {"type": "number"}, "maxItems": 3}]
PARAMS = [
    DrawParams(),
    DrawParams(temperature=0.9, seed=6),
    DrawParams(temperature=1.2, top_k=40, top_p=0.9, seed=3, repetition_penalty=1.1),
    DrawParams(temperature=0.8, mirostat=4.0, seed=9),
]
CHOICES = ("yes", "no", "yesterday", "ä b")


def form_cases(tokens: int = 90) -> list[Case]:
    """Replies under each schema and of the choices, greedy and drawn; every other one to a message."""
    forms: list[dict[str, Any]] = [*({"schema": json.dumps(one)} for one in SCHEMAS), {"choices": CHOICES}]
    asked: list[dict[str, Any]] = [{"text": TEXT}, {"messages": ("hello",)}]
    return [
        Case(params, max_tokens=tokens, **asked[(row + column) % 2], **form)
        for row, params in enumerate(PARAMS)
        for column, form in enumerate(forms)
    ]
