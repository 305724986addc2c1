"""JSON schemas of users and of the server's clients: compiled, and a reply drawn under each."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from edgedec.cli.options import read_text_file
from edgedec.core.errors import UsageError
from edgedec.decode.constrained import go_on
from edgedec.grammar.spec import GrammarSpec
from edgedec.native import probe
from tests.fuzz.mutate import mutate_json
from tests.fuzz.target import Files
from tests.grammar.numeric_schemas import numeric_schema
from tests.grammar.support import END, constraint, permitted_ids, tokenizer

SCHEMA = "schema.json"
_MOST_TOKENS = 40
_NUMERIC = 6
_SEEDS = (
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 20},
            "born": {"type": "integer", "minimum": 1900, "maximum": 2100},
            "tags": {"type": "array", "items": {"enum": ["a", "b", 3, None]}, "minItems": 1, "maxItems": 3},
            "size": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
            "mail": {"type": "string", "format": "email"},
        },
        "required": ["name", "born"],
        "additionalProperties": False,
    },
    {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "value": {"type": ["integer", "null"]},
                    "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                },
                "required": ["value"],
            }
        },
        "$ref": "#/$defs/tree",
    },
    {
        "anyOf": [{"const": "yes"}, {"type": "string", "pattern": "^[a-z]{1,5}$"}],
        "description": "An answer, or a word.",
    },
    {
        "type": "array",
        "prefixItems": [{"type": "boolean"}, {"allOf": [{"type": "integer"}, {"minimum": 3}]}],
        "items": {"type": "string"},
        "maxItems": 4,
    },
)

_PLAIN = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "size": {"type": "number", "exclusiveMinimum": 0.5, "maximum": 12.25},
        "tags": {"type": "array", "items": {"enum": ["a", "b", 3, None]}, "minItems": 1, "maxItems": 3},
        "kind": {"oneOf": [{"const": "x"}, {"type": "object", "required": ["kind"]}]},
    },
    "required": ["name"],
    "additionalProperties": {"type": "integer", "maximum": 7},
}


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    numeric = [numeric_schema(random.Random(seed)) for seed in range(_NUMERIC)]
    accepted = [one for one in numeric if _compiles(one)]
    return [({SCHEMA: json.dumps(one).encode()}, {}) for one in (*_SEEDS, *accepted)]


def _compiles(schema: dict[str, object]) -> bool:
    try:
        constraint(GrammarSpec.of(schema=schema))
    except UsageError:
        return False
    return True


def mutate(files: Files, rng: random.Random) -> None:
    """Damage the document, or put a numeric schema in place of a part."""
    if rng.random() < 0.7:
        files[SCHEMA] = mutate_json(files[SCHEMA], rng)
        return
    try:
        document = json.loads(files[SCHEMA])
        document["properties"] = {"a": numeric_schema(rng)} | document.get("properties", {})
        files[SCHEMA] = json.dumps(document).encode()
    except (AttributeError, ValueError, TypeError, RecursionError):
        files[SCHEMA] = json.dumps(numeric_schema(rng)).encode()


def read(folder: Path) -> None:
    """Compile the schema as ``generate --form`` does, and draw a reply; a whole one is JSON."""
    text = read_text_file(folder / SCHEMA, "form of a reply")
    form = GrammarSpec.json_schema(text)
    one, ids, rng = constraint(form), [], random.Random(len(text))
    while not one.finished and len(ids) < _MOST_TOKENS:
        if one.accepts:
            json.loads(tokenizer().decode(ids))
        may = permitted_ids(one)
        assert may, "a reply under the schema can go neither on nor end"
        token = rng.choice(may)
        if token == END:
            break
        go_on(one, token)
        ids.append(token)


@cache
def _pieces() -> list[list[int]]:
    control = tokenizer().control_ids().values()
    return [[] if one in control else [*tokenizer().token_bytes(one)] for one in range(tokenizer().size)]


def native_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """Those of ``seeds`` that the native engine keeps to, and parts of the others."""
    own = [*seeds(folder), ({SCHEMA: json.dumps(_PLAIN).encode()}, {})]
    return [one for one in own if "message" not in _asked(one[0][SCHEMA].decode(), [])]


def _asked(text: str, tokens: list[int]) -> dict[str, Any]:
    return probe.grammar(schema=text, pieces=_pieces(), silent=[], ends=[END, 0], tokens=tokens, masks=True)


def read_native(folder: Path) -> None:
    """Compile the schema as the native engine does, and draw a reply; a whole one is JSON."""
    text = read_text_file(folder / SCHEMA, "form of a reply")
    tokens: list[int] = []
    rng = random.Random(len(text))
    while len(tokens) < _MOST_TOKENS:
        found = _asked(text, tokens)
        if "message" in found:
            raise UsageError(found["message"], hint=found["hint"] or None)
        assert found["refused_at"] == -1, "a token that may come next was refused"
        last = found["steps"][-1]
        if last["accepts"]:
            json.loads(tokenizer().decode(tokens))
        if last["finished"]:
            break
        may = [one for one in last["mask"] if one not in (END, 0)]
        assert may, "a reply under the schema can go neither on nor end"
        tokens.append(rng.choice(may))
