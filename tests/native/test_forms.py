"""Forms of replies in the native engine: texts and tokens that llguidance allows under the same schema."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from typing import Any

import pytest

from tests.native.forms import BYTES, LONGER, Vocabulary, bytes_only, python, random_schema, takes, walk

OBJECT: dict[str, Any] = {"type": "object"}
STRING: dict[str, Any] = {"type": "string"}


@pytest.mark.parametrize("seed", range(8))
def test_masks_and_certain_tokens_are_those_of_python(seed: int) -> None:
    rng = random.Random(seed)
    compared = forced = 0
    for _ in range(20):
        schema = json.dumps(random_schema(rng))
        vocabulary = Vocabulary([*BYTES, *rng.sample(LONGER, rng.randint(10, len(LONGER)))])
        one = python(schema, vocabulary)
        if one is None:
            continue
        tokens, steps = walk(one, vocabulary, rng)
        found = vocabulary.native(tokens, schema=schema, masks=True, commits=rng.random() < 0.5)
        if "message" in found:  # fewer schemas can be used here
            assert '"oneOf"' in found["message"] or "beside const or enum" in found["message"], schema
            continue
        assert found["steps"][: len(steps)] == steps, schema
        compared += len(steps)
        forced += sum(bool(step["forced"]) for step in steps)
    assert compared > 100
    assert forced


SAME = [
    (
        OBJECT,
        '{}|{ }|{  }| {}|{} |{\n}|{\n  }|{\n \n}|{\t}|{\r\n}|{"a":1,"a":2}|{"a":-0}|{"a":01}|{"\\u0041":1}',
    ),
    (STRING, '"a"|"\\u0041"|"\\u000a"|"\\u001F"|"\\u007f"|"\\/"|"/"|"\x7f"|"é"|"\\ud83d\\ude00"|"\t"|"\\"'),
    (
        {**STRING, "minLength": 1, "maxLength": 2},
        '""|"a"|"ab"|"abc"|"\\n\\n"|"\\u0001\\u0001"|"éé"|"😀😀"|"😀😀😀"',
    ),
    ({"type": "integer"}, "0|-0|00|9223372036854774784|9223372036854774785|-9223372036854774784|1.0|1e3"),
    ({"type": "integer", "minimum": 1.5, "maximum": 30}, "1|2|3|30|31|-2|0|04"),
    ({"type": "number"}, "0|-0|1.|.5|1.5|1e5|1E+05|-1.50e-0|01|1e400"),
    ({"enum": [1e5, 1e-7, 0.1, 2.0]}, "100000|0.0000001|1e-7|0.1|2|2.0"),
    ({"type": ["string", "null"], "enum": ["a", None, 3]}, '"a"|null|3'),
    (
        {"properties": {"a": {"type": "null"}}, **OBJECT},
        '{"\\u0062":1}|{"\\ud83d":1}|{"\\ud83d\\ude00":1}|{"a":1}|{"aa":1}',
    ),
    ({"properties": {"a": False}, **OBJECT}, '{"a":1}|{"b":1}|{}'),
    ({"type": "array", "prefixItems": [{}, False, {}]}, "[]|[1]|[1,1]"),
    ({"type": "array", "items": [{"type": "null"}], "additionalItems": False}, "[]|[null]|[1]|[null,null]"),
    ({"minLength": 2}, '"a"|"ab"|1|{}'),
]


@pytest.mark.parametrize(("schema", "texts"), SAME)
def test_a_text_is_taken_where_python_takes_it(schema: dict[str, Any], texts: str) -> None:
    for text in texts.split("|"):
        one = python(json.dumps(schema), bytes_only())
        assert one is not None
        theirs = all(one.advance(byte) for byte in text.encode()) and one.accepts
        assert takes({"schema": json.dumps(schema)}, text.encode()) == theirs, text


def test_bytes_that_are_no_characters_are_in_no_text() -> None:
    for wrong in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xc3", b"\xe0\x80\x80"):
        assert takes({"schema": '{"type": "string"}'}, b'"' + wrong + b'"') is False
    assert takes({"schema": '{"type": "string"}'}, '"ÿ߿ࠀ퟿￿𐀀􏿿"'.encode()) is True


@pytest.mark.parametrize("bounds", [(-123, 45), (7, 7), (0, 9), (-9, -3), (95, 2040), (-1, 0)])
def test_integers_are_those_of_the_range(bounds: tuple[int, int]) -> None:
    schema = json.dumps({"type": "integer", "minimum": bounds[0], "maximum": bounds[1]})
    for number in {*range(-150, 150), *range(90, 2100, 13), 2040, 2041}:
        assert takes({"schema": schema}, str(number).encode()) is (bounds[0] <= number <= bounds[1]), number


PATTERNS = [
    "^[a-z]{1,5}$",
    "abc",
    "^a|b$",
    "^(?:yes|no)+$",
    "^\\d{3}-\\d{4}$",
    "^\\w+\\s?\\w*$",
    '^[^a-z"]{2}$',
    "^a.c$",
    "x?y*z+",
    "^(a(b(c)?)?)?$",
    "é+",
    "^[à-ÿ]{2,3}$",
    "^[\\n\\t]$",
    "^😀?$",
    "\\D",
    "^[\\s\\S]{2}$",
    "^$",
    "",
    "^a{0}b$",
    "^(?:a|ab)(?:c|bcd)$",
    "^[^\\x00-\\x7f]$",
    "^(\\+\\d{1,3})?[ -]?\\d{2,}$",
    "^[\\w.-]+$",
    "^\\/[a-z]+\\/?$",
]
STRINGS = [
    *({"type": "string", "pattern": one} for one in PATTERNS),
    *({"type": "string", "format": one} for one in ("date", "time", "date-time", "uuid", "ipv4", "hostname")),
]


@pytest.mark.parametrize("string", STRINGS)
def test_strings_of_a_pattern_are_those_of_python(string: dict[str, str]) -> None:
    rng = random.Random(str(string))
    for schema in (
        json.dumps(string),
        json.dumps({"properties": {"a": string}, "required": ["a"], **OBJECT}),
    ):
        vocabulary = Vocabulary([*BYTES, *rng.sample(LONGER, rng.randint(10, len(LONGER)))])
        one = python(schema, vocabulary)
        assert one is not None
        tokens, steps = walk(one, vocabulary, rng, 40)
        found = vocabulary.native(tokens, schema=schema, masks=True)
        assert found["steps"][: len(steps)] == steps


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("a(?=b)", "(?"),
        ("(a)\\1", "\\1"),
        ("\\bword", "\\b"),
        ("[[:alpha:]]", "such a set"),
        ("(a", "a group without end"),
        ("a)", ")"),
        ("[a", "a set without end"),
        ("a**", "a repetition of a repetition"),
        ("(^a)", "an unexpected ^"),
        ("a{2000}", "more than 1000 repetitions"),
        ("((((a{1000}){1000}){1000}){1000})", "too many characters"),
        ("((((){1000}){1000}){1000}){1000}", "too many repetitions"),
        ("(" * 40 + ")" * 40, "too many nested groups"),
        ("\\ud800", "half a character"),
        ("(?:a|b|c|d){400}(?:a|b|c|d){400}", "too many characters"),
    ],
)
def test_a_pattern_that_cannot_be_kept_to_says_why(pattern: str, says: str) -> None:
    found = str(takes({"schema": json.dumps({"type": "string", "pattern": pattern})}, b""))
    assert says in found
    assert '"pattern"' in found


def test_a_pattern_that_tells_too_many_texts_apart_ends_in_a_line() -> None:
    words = [bytes(97 + (number >> bit & 1) for bit in range(14)) for number in range(1 << 14)]
    schema = json.dumps({"type": "string", "pattern": "^[ab]*a[ab]{300}$"})
    found = Vocabulary([*BYTES, *words]).native([ord('"')], schema=schema, masks=True)
    assert "too complex" in found["message"]


def test_an_address_is_one() -> None:
    form = {"schema": '{"type": "string", "format": "email"}'}
    assert takes(form, b'"a.b+c@example.org"') is True
    assert [takes(form, text) for text in (b'"a@"', b'"@b.c"', b'"a b@c.d"', b'"a@-b.c"')] == [False] * 4
    assert "no value that ends" in str(
        takes({"schema": '{"type": "string", "pattern": "^[^\\\\s\\\\S]$"}'}, b"")
    )


RANGES = [
    {"minimum": 0, "maximum": 1},
    {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"minimum": -1.5, "maximum": 2.25},
    {"minimum": 0.25, "exclusiveMaximum": 0.75},
    {"exclusiveMinimum": 99.5},
    {"maximum": -0.05},
    {"exclusiveMaximum": 0},
    {"minimum": 7.5, "maximum": 7.5},
    {"minimum": 1, "exclusiveMinimum": 1, "maximum": 12},
    {"minimum": 1e-7, "maximum": 12345678.5},
]


@pytest.mark.parametrize("bounds", RANGES)
def test_numbers_are_decimals_within_their_bounds(bounds: dict[str, float]) -> None:
    rng = random.Random(str(bounds))
    schema = json.dumps({"type": "number", **bounds})
    lows = [(Decimal(str(value)), name[0] == "e") for name, value in bounds.items() if "inimum" in name]
    highs = [(Decimal(str(value)), name[0] == "e") for name, value in bounds.items() if "aximum" in name]
    near = [Decimal(str(value)) for value in bounds.values()]
    texts = {f"{one + Decimal(step) / 1000:f}" for one in near for step in range(-1500, 1500, 61)}
    texts |= {f"{one + step:f}" for one in near for step in (-1, Decimal("1e-8"), Decimal("-1e-8"), 0, 1, 90)}
    texts |= {text + rng.choice(("0", "00", ".0", "5")) for text in sorted(texts) if rng.random() < 0.3}
    for text in sorted(texts):
        sound = re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text) is not None
        number = Decimal(text) if sound else Decimal(0)
        within = all(number > low or (number == low and not is_open) for low, is_open in lows)
        within = within and all(number < high or (number == high and not is_open) for high, is_open in highs)
        negative_zero = number == 0 and text.startswith("-")
        expected = sound and within and not negative_zero
        assert takes({"schema": schema}, text.encode()) is expected, text
        theirs = python(schema, bytes_only())
        assert theirs is not None
        if all(theirs.advance(byte) for byte in text.encode()) and theirs.accepts:
            assert expected or negative_zero, text


def test_a_number_that_is_begun_can_end() -> None:
    rng = random.Random(3)
    for bounds in RANGES * 3:
        schema, vocabulary = json.dumps({"type": "number", **bounds}), bytes_only()
        tokens: list[int] = []
        while len(tokens) < 12:
            last = vocabulary.native(tokens, schema=schema, masks=True)["steps"][-1]
            may = [token for token in last["mask"] if token != vocabulary.end]
            assert may or last["accepts"], (bounds, tokens)
            if not may:
                break
            tokens.append(rng.choice(may))


def test_choices_are_texts_themselves() -> None:
    form = {"choices": ["yes", "yesterday", "ä"]}
    assert [takes(form, text.encode()) for text in ("yes", "yesterday", "ä")] == [True] * 3
    assert [takes(form, text.encode()) for text in ("", "ye", '"yes"', "yes ", "no")] == [False] * 5
    assert bytes_only().native([*b"ye"], **form)["steps"][-1]["forced"] == [ord("s")]


def test_what_is_deeper_nested_than_possible_is_not_begun() -> None:
    deep = b"[" * 258 + b"]" * 258
    assert takes({"schema": "{}"}, deep) is False
    assert takes({"schema": "{}"}, deep[1:-1]) is True
    inner = {
        "type": "array",
        "items": {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        "minItems": 1,
    }
    chain = json.dumps({"type": "array", "items": inner})
    assert takes({"schema": chain}, b"[" * 256 + b"]" * 256) is True
    ahead = bytes_only().native([*b"[" * 257], schema=chain)
    assert ahead["refused_at"] == 256, "a value that could not end was begun"


def test_alternatives_of_one_value_are_told_apart() -> None:
    kinds = [{"type": "object", "properties": {"kind": {"const": one}}, "required": ["kind"]} for one in "ab"]
    named = {"$defs": {"a": kinds[0], "b": kinds[1]}, "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}
    assert takes({"schema": json.dumps(named)}, b'{"kind": "b"}') is True
    assert "oneOf" in str(takes({"schema": json.dumps({"oneOf": [STRING, {"const": "a"}]})}, b""))


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"anyOf": [schema, {"type": "null"}]}
    return schema


HOSTILE: list[tuple[Any, str]] = [
    ({"allOf": [{"$ref": "#"}]}, "no value that ends"),
    (
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        "no value that ends",
    ),
    ({"type": "array", "minItems": 1, "items": {"$ref": "#"}}, "no value that ends"),
    ({"type": "array", "minItems": 3, "maxItems": 2}, "no value that ends"),
    ({"type": "string", "enum": [1]}, "no value that ends"),
    ({"enum": [[[[["a"]]]]] * 9000}, "too large"),
    ({"properties": {str(key): {} for key in range(5000)}}, "too many keys"),
    ({"anyOf": [{"minLength": n} for n in range(1001)]}, "1 to 1000"),
    ({"allOf": [{"anyOf": [{"minLength": n}, {"maxLength": n}]} for n in range(40)]}, "too large"),
    ({"allOf": [{} for _ in range(300)]}, "too many parts"),
    (_deep(120), "nested too deep"),
    ({"properties": {"\ud800": {}}}, "half a character"),
    ({"const": "\ud800"}, "half a character"),
    ({"minItems": -1}, "is no count"),
    ({"type": "integer", "minimum": "1"}, "is no number"),
    ({"required": "a", "type": "object"}, "is no list"),
    ({"items": 3, "type": "array"}, "is no schema"),
    ({"$ref": 3}, "leads to nothing"),
    ({"$ref": "#/allOf/9999999999999999999", "allOf": [{}]}, "leads to nothing"),
]


@pytest.mark.parametrize(("schema", "says"), HOSTILE)
def test_a_hostile_schema_is_a_line(schema: Any, says: str) -> None:
    found = str(takes({"schema": json.dumps(schema)}, b""))
    assert says in found
    assert "\n" not in found
    assert len(found) < 400


def test_bounds_without_end_cost_nothing() -> None:
    for schema in (
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9, "maxLength": 10**12},
        {"type": "array", "maxItems": 10**15, "items": {"type": "string", "maxLength": 10**9}},
    ):
        assert takes({"schema": json.dumps(schema)}, b"1") is False


def test_a_form_with_too_many_ways_to_go_on_ends_in_a_line() -> None:
    ways = [{"type": "array", "items": {"$ref": "#"}, "maxItems": n} for n in range(2, 14)]
    found = bytes_only().native([*b"[[[[[[[["], schema=json.dumps({"anyOf": ways}), masks=True)
    assert "too complex" in found["message"]


def test_a_long_text_lets_go_of_states_behind_it() -> None:
    text = b'["' + b"ab" * 3000 + b'", ' + b"[" * 40 + b"]" * 40 + b"]"
    schema = {"type": "array", "items": {"anyOf": [{"type": "string", "maxLength": 6000}, {"type": "array"}]}}
    assert takes({"schema": json.dumps(schema)}, text) is True
    longer = text.replace(b'"', b'"a', 1)
    assert takes({"schema": json.dumps(schema)}, longer) is False
