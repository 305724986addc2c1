"""Numbers that a schema bounds: every reply keeps to them, or the schema is refused by the keyword's name."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.core.errors import UsageError
from edgedec.grammar.exact_numbers import MOST, is_exact, lower_bound, upper_bound
from edgedec.grammar.spec import GrammarSpec
from tests.grammar.numeric_schemas import KEYWORDS, Schema, candidates, numeric_schema
from tests.grammar.support import constraint, random_reply, tokenizer

LOWEST, HIGHEST = -(2**63), 2**63 - 1
_UNSATISFIABLE = re.compile("Unsatisfiable schema|no text is of this form")


def allows(form: GrammarSpec, text: str) -> bool:
    one = constraint(form)
    return all(one.advance(token) for token in tokenizer().encode_inside(text)) and one.accepts


def replies(schema: Schema, rng: random.Random) -> list[str] | None:
    """Texts that a schema allows, at its edges and at random; None where it is refused."""
    try:
        form = GrammarSpec.of(schema=schema)
        constraint(form)
    except UsageError as error:
        if not any(keyword in str(error) for keyword in KEYWORDS) and not _UNSATISFIABLE.search(str(error)):
            raise AssertionError(schema) from error
        return None
    near = [] if "properties" in schema else candidates(schema, rng)
    found = [text for text in near if allows(form, text)]
    drawn = [random_reply(form, rng, 60) for _ in range(2)]
    return found + [tokenizer().decode(ids) for ids in drawn if ids is not None]


def compared(seeds: Iterable[int]) -> tuple[int, int]:
    """Count the schemas that are accepted, and the replies to them, all of which are valid."""
    accepted = count = 0
    for seed in seeds:
        rng = random.Random(seed)
        schema = numeric_schema(rng)
        if (texts := replies(schema, rng)) is None:
            continue
        validator = jsonschema.Draft202012Validator(schema)
        accepted, count = accepted + 1, count + len(texts)
        for text in texts:
            assert _is_valid(validator, text), (schema, text)
    return accepted, count


def _is_valid(validator: jsonschema.Draft202012Validator, text: str) -> bool:
    """Whether a text is valid as it stands; as float64 a fraction may become the bound that it is below."""
    if validator.is_valid(json.loads(text)):
        return True
    exact = "multipleOf" not in json.dumps(validator.schema) and json.loads(text, parse_float=Decimal)
    return exact is not False and validator.is_valid(exact)


def test_replies_keep_to_the_numbers_of_any_schema() -> None:
    accepted, count = compared(range(100))
    assert accepted > 30
    assert count > 200


@pytest.mark.slow
def test_replies_keep_to_the_numbers_of_three_thousand_schemas() -> None:
    accepted, count = compared(range(100, 3100))
    assert accepted > 900
    assert count > 6000


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "integer", "minimum": -1e30, "maximum": -1e20}, '"maximum": -1e\\+20'),
        ({"type": "integer", "maximum": -(2**63)}, '"maximum": -9223372036854775808'),
        ({"type": "integer", "minimum": 2**63}, '"minimum": 9223372036854775808'),
        ({"const": 2**63 + 1}, '"const": 9223372036854775809'),
        ({"const": 2**53 + 1}, '"const": 9007199254740993'),
        ({"enum": [1, [{"a": 2.0**62}]]}, '"enum": 4.6'),
        ({"properties": {"a": {"items": {"exclusiveMinimum": 1e300}}}}, '"exclusiveM.*": 1e.*/items'),
        ({"type": "number", "multipleOf": 1e-300}, '"multipleOf": 1e-300'),
        ({"type": "number", "multipleOf": 0}, '"multipleOf": 0'),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_kept_are_refused_by_the_keyword(schema: Schema, keyword: str) -> None:
    with pytest.raises(UsageError, match=keyword):
        constraint(GrammarSpec.of(schema=schema))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer", "minimum": LOWEST, "maximum": HIGHEST}, [0, -(10**18), MOST, -MOST], [2**63]),
        ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, [0, MOST], [-1]),
        ({"type": "integer"}, [0, -5, MOST], [2**63, 10**19, 10**40]),
        ({"type": ["integer", "null"], "minimum": 3}, [3, MOST], [2, 2**63]),
        ({"type": "integer", "exclusiveMinimum": 2**60, "maximum": 2**61}, [2**60 + 256], [2**60, 2**60 - 1]),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True, "maximum": 5}, [4, 5], [3, 6]),
        ({"type": "integer", "maximum": 5, "exclusiveMaximum": False}, [5, 0], [6]),
        ({"type": "number", "minimum": 2e18}, [2 * 10**18, 9 * 10**18], [10**18]),
        ({"type": "number"}, [10**30], []),
        ({"const": 2**53 + 2}, [2**53 + 2], [2**53, 2**53 + 1]),
    ],
)  # fmt: skip
def test_bounds_hold_at_their_edges(schema: Schema, good: list[int], bad: list[int]) -> None:
    form = GrammarSpec.of(schema=schema)
    assert [one for one in good if not allows(form, str(one))] == []
    assert [one for one in bad if allows(form, str(one))] == []


def test_a_reply_that_goes_on_with_digits_ends_where_64_bits_do() -> None:
    one = constraint(GrammarSpec.of(schema={"type": "object", "properties": {"a": {"type": "integer"}}}))
    digits = 0
    for token in tokenizer().encode_inside('{"a":2'):
        assert one.advance(token)
    while one.permits(*tokenizer().encode_inside("0")):
        assert one.advance(*tokenizer().encode_inside("0"))
        digits += 1
    assert digits == 18


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)


@given(NUMBERS, st.booleans())
def test_a_bound_is_moved_inwards_and_is_exact(value: Any, exclusive: bool) -> None:
    lower, upper = lower_bound(value, exclusive=exclusive), upper_bound(value, exclusive=exclusive)
    if lower is None:
        assert value > MOST - 2048
    elif abs(value) < 2**53:
        assert lower == value
    else:
        assert abs(lower) <= MOST
        assert min(lower, Decimal(repr(float(lower)))) >= value
    assert upper == (None if (other := lower_bound(-value, exclusive=exclusive)) is None else -other)


@given(st.integers(-(2**70), 2**70))
def test_an_exact_number_is_a_float(value: int) -> None:
    assert is_exact(value) == (float(value) == value and abs(value) <= MOST)
