"""Schemas as they can be kept to: annotations left out with a note, the rest named with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgedec.core.errors import UsageError
from edgedec.grammar.spec import GrammarSpec
from edgedec.grammar.supported_schema import supported_schema
from tests.grammar.support import constraint

LIST: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("format_", ["color", "int64", "iri", "password", "json-pointer"])
def test_an_unknown_format_is_an_annotation(format_: str) -> None:
    form = GrammarSpec.of(schema={"type": "object", "properties": {"a": {"format": format_}}})
    constraint(form)
    assert form.left_out == (f'"format": "{format_}" at /properties/a',)
    assert not GrammarSpec.of(schema={"type": "string", "format": "date"}).left_out


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": False},
        {"type": "object", "propertyNames": {"type": "string"}},
        {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {}},
        {"type": "object", "unevaluatedProperties": True},
        {"type": "string", "deprecated": True, "then": {"minLength": 1}},
        {"type": "array", "minContains": 2},
        {"type": "string", "minLength": 2.0},
        {"format": "color", "default": 1e308, "type": "string"},
        {"properties": {"uniqueItems": {"type": "string"}, "not": {"type": "string"}}},
        {"$defs": {"unused": {"uniqueItems": True, "minimum": 1e30}}, "type": "string"},
    ],
)
def test_keywords_that_ask_for_nothing_are_no_fault(schema: dict[str, Any]) -> None:
    constraint(GrammarSpec.of(schema=schema))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "uniqueItems": True}, '"uniqueItems" cannot be kept'),
        ({"properties": {"a": {"items": {"not": {}}}}}, '"not" at /properties/a/items cannot'),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"propertyNames": {"maxLength": 2}}}}, "Names.* at /.def"),
        ({"anyOf": [{"type": "string"}, {"if": {}, "then": {}}]}, '"if" at /anyOf/1'),
    ],
)  # fmt: skip
def test_a_keyword_that_cannot_be_kept_is_named_with_its_place(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        GrammarSpec.of(schema=schema)
    kept = supported_schema(json.dumps(schema), loose=True)
    assert kept.left_out
    constraint(GrammarSpec.json_schema(kept.text))


@pytest.mark.parametrize("text", ['{"const": NaN}', '{"enum": [1e999]}', '{"minimum": -Infinity}'])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="JSON schema"):
        GrammarSpec.json_schema(text)


@pytest.mark.parametrize(
    "schema",
    [
        LIST,
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
        {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"$ref": "#"}}]},
    ],
)
def test_recursion_that_can_end_works(schema: dict[str, Any]) -> None:
    constraint(GrammarSpec.of(schema=schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/"},
        {"anyOf": [{"$ref": "#"}]},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
    ],
)
def test_recursion_that_never_ends_is_a_plain_line(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r'"\$ref".* leads back to itself, so that no value ends'):
        constraint(GrammarSpec.of(schema=schema))


def test_a_form_without_a_text_says_so_in_words() -> None:
    with pytest.raises(UsageError, match="no text is of this form"):
        constraint(GrammarSpec.of(grammar="start: start"))
