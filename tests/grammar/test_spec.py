"""Tests of the plain value that says which form a reply must have."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from edgedec.core.errors import UsageError
from edgedec.grammar.spec import MOST_BYTES, MOST_NESTING, GrammarSpec, chosen_grammar


class Planet:
    """A class as pydantic's, which is not installed everywhere."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

    @classmethod
    def model_validate_json(cls, text: str) -> Planet:
        return cls(json.loads(text)["name"])


def test_a_spec_is_a_frozen_value() -> None:
    assert GrammarSpec.of(regex="a") == GrammarSpec.regex("a") == GrammarSpec("regex", "a")
    assert len({GrammarSpec.lark("start: A"), GrammarSpec.lark("start: A")}) == 1
    with pytest.raises(AttributeError):
        GrammarSpec.json_object().text = "b"  # type: ignore[misc]


def test_a_schema_keeps_the_order_of_its_properties() -> None:
    schema = {"properties": {"z": {}, "a": {}}}
    assert GrammarSpec.of(schema=schema).text == '{"properties": {"z": {}, "a": {}}}'


def test_a_model_class_gives_its_schema_and_takes_replies() -> None:
    spec = GrammarSpec.of(schema=Planet)
    assert json.loads(spec.text) == {**Planet.model_json_schema(), "additionalProperties": False}
    assert spec.parse('{"name": "Mars"}').name == "Mars"


def test_pydantic_models_are_such_classes() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("City", name=(str, ...), people=(int, 0))
    spec = GrammarSpec.of(schema=model)
    assert spec.parse('{"name": "Ulm", "people": 3}').people == 3
    nested = pydantic.create_model("Land", cities=(list[model], ...), codes=(dict[str, int], ...))
    schema = json.loads(GrammarSpec.of(schema=nested).text)
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["City"]["additionalProperties"] is False
    assert schema["properties"]["codes"]["additionalProperties"] == {"type": "integer"}


def test_parsing_is_for_json() -> None:
    assert GrammarSpec.json_object().parse('{"a": [1]}') == {"a": [1]}
    assert GrammarSpec.regex("[0-9]").parse("1") is None
    with pytest.raises(ValueError, match="Expecting"):
        GrammarSpec.json_object().parse('{"a"')


def test_a_key_that_stands_twice_is_no_value() -> None:
    for spec in (GrammarSpec.json_object(), GrammarSpec.of(schema=Planet)):
        with pytest.raises(ValueError, match="'name' twice"):
            spec.parse('{"name": "a", "name": "b"}')
    with pytest.raises(ValueError, match="too deep"):
        GrammarSpec.json_object().parse('{"a":' + "[" * 100_000)


def test_no_argument_is_no_grammar() -> None:
    assert chosen_grammar() is None
    assert chosen_grammar(schema=None, regex=None) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "no grammar was given"),
        ({"schema": {}, "regex": "a"}, "regex and schema are given"),
        ({"schema": 5}, "5 is no JSON schema"),
        ({"schema": {"a": object()}}, "no JSON"),
        ({"schema": int}, "int is no pydantic model"),
        ({"regex": 5}, "regex is no text"),
        ({"regex": ""}, "the pattern is empty"),
        ({"grammar": "(" * 101}, "the grammar is nested 101 deep"),
        ({"regex": "a" * (MOST_BYTES + 1)}, "the pattern has 1,000,001 bytes"),
    ],
)
def test_arguments_that_are_no_grammar_are_one_line(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        GrammarSpec.of(**arguments)


@pytest.mark.parametrize("text", ["{", "[]", '"a"', '{"a": }', "nul"])
def test_a_schema_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="JSON schema"):
        GrammarSpec.json_schema(text)


def test_schemas_of_any_depth_and_size_are_refused_at_once() -> None:
    began = time.perf_counter()
    deep: dict[str, Any] = {}
    for _ in range(20_000):
        deep = {"items": deep}
    for hostile in (deep, '{"a":' * 100_000 + "1" + "}" * 100_000, '{"a": "' + "x" * 10_000_000 + '"}'):
        with pytest.raises(UsageError):
            GrammarSpec.json_schema(hostile)
    with pytest.raises(UsageError, match="unknown kind"):
        GrammarSpec("ebnf", "a")  # type: ignore[arg-type]
    assert time.perf_counter() - began < 5


def test_brackets_in_strings_of_a_schema_are_not_nesting() -> None:
    pattern = "(" * 2 * MOST_NESTING + '"' + "\\"
    assert json.loads(GrammarSpec.of(schema={"description": pattern}).text)["description"] == pattern


def test_unclosed_strings_do_not_take_long() -> None:
    began = time.perf_counter()
    with pytest.raises(UsageError):
        GrammarSpec.json_schema('{"' + '\\"' * 400_000)
    assert time.perf_counter() - began < 5
