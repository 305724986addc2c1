"""A JSON schema as llguidance keeps to it: the same replies or fewer, and an error for what it cannot keep.

- Numbers are those that it writes exactly; see ``exact_numbers``.
- An integer without a bound has at most the digits of 64 bits: a small model can go on with digits for ever.
- Annotations that it does not know are left out. Keywords that it cannot keep are an error with their place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn, TypeGuard

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.grammar.exact_numbers import MOST, Number, is_exact, lower_bound, upper_bound
from edgedec.grammar.schema_refs import endless, target_of

FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)
"""Formats of texts that are kept to. Others are annotations."""
_UNKEPT = (
    "not", "if", "then", "else", "uniqueItems", "contains", "minContains", "maxContains", "propertyNames",
    "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties",
    "$dynamicRef", "$recursiveRef",
)  # fmt: skip
_ANNOTATIONS = ("deprecated", "contentSchema", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_OPEN = 10**18
"""A single bound of so many digits needs another: the compiler counts up to the next power of ten."""
_ONE = ("additionalProperties", "items", "additionalItems")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_MAPS = ("properties", "patternProperties")
_MOST_FACTOR, _MOST_DECIMALS = 2**32 - 1, 9
_RANGE = f"numbers from {-MOST:,} to {MOST:,} can be kept to"

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SupportedSchema:
    """``text``: the schema to compile. ``left_out``: keywords that it no longer has, with their places."""

    text: str
    left_out: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def supported_schema(text: str, *, loose: bool = False) -> SupportedSchema:
    """Return the schema of ``text``, valid JSON, as it can be kept to.

    ``loose``: keywords that cannot be kept are left out. Raises UsageError, naming the keyword and its place.
    """
    root = json.loads(text, parse_float=_finite, parse_constant=_finite)
    if not isinstance(root, dict):
        return SupportedSchema(text)
    keeper = _Keeper(root, loose)
    keeper.keep()
    return SupportedSchema(json.dumps(root, ensure_ascii=False), tuple(keeper.left_out))


class _Keeper:
    """Changes ``root`` in place. What nothing refers to stays as it is: nobody compiles it."""

    def __init__(self, root: Schema, loose: bool) -> None:
        self._root = root
        self._loose = loose
        self.left_out: list[str] = []

    def keep(self) -> None:
        todo: list[tuple[Any, str]] = [(self._root, "")]
        seen: dict[int, tuple[Schema, str]] = {}
        while todo:
            schema, place = todo.pop()
            if isinstance(schema, dict) and id(schema) not in seen:
                seen[id(schema)] = schema, place
                self._keep(schema, place)
                todo += reversed([*_inside(schema, place)])
                if (found := target_of(self._root, schema)) is not None:
                    todo.append((found, str(schema["$ref"]).removeprefix("#").rstrip("/")))
        if (at := endless(self._root, list(seen.values()))) is not None:
            _refuse('"$ref"', at, "leads back to itself, so that no value ends", "let the recursion end")

    def _keep(self, schema: Schema, place: str) -> None:
        for keyword in [one for one in (*_ANNOTATIONS, *_UNKEPT) if one in schema]:
            if not (keyword in _ANNOTATIONS or _says_nothing(keyword, schema)):
                if not self._loose:
                    _refuse(f'"{keyword}"', place, "cannot be kept to", "leave it out")
                self.left_out.append(f'"{keyword}"{_at(place)}')
            del schema[keyword]
        form = schema.get("format")
        if isinstance(form, str) and form not in FORMATS:
            self.left_out.append(f'"format": {json.dumps(form)[:60]}{_at(place)}')
            del schema["format"]
        for keyword in _SIZES:
            if isinstance(size := schema.get(keyword), float) and size.is_integer():
                schema[keyword] = int(size)
        for keyword, values in (("const", [schema.get("const")]), ("enum", schema.get("enum"))):
            for number in _numbers(values):
                if not is_exact(number):
                    _refuse(f'"{keyword}": {number}', place, "cannot be written exactly", _RANGE)
        _keep_bounds(schema, place)
        _keep_factor(schema, place)


def _keep_bounds(schema: Schema, place: str) -> None:
    for (keyword, other), bound in ((_LOWER, lower_bound), (_UPPER, upper_bound)):
        flag = schema.get(other)
        if isinstance(flag, bool):  # as draft 4 has it
            del schema[other]
            if flag and keyword in schema:
                schema[other] = schema.pop(keyword)
        for name in (keyword, other):
            if _is_number(value := schema.get(name)):
                if (kept := bound(value, exclusive=name == other)) is None:
                    _refuse(f'"{name}": {value}', place, "leaves no number that can be written", _RANGE)
                schema[name] = kept
    _drop_needless_type(schema)
    lower, upper = (_given(schema, *names) for names in (_LOWER, _UPPER))
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    ends = "integer" in types and "number" not in types
    if lower is None and (ends or (upper is not None and upper <= -_OPEN)):
        schema["minimum"] = -MOST
    if upper is None and (ends or (lower is not None and lower >= _OPEN)):
        schema["maximum"] = MOST


def _drop_needless_type(schema: Schema) -> None:
    """Leave "integer" out beside "number", which has it: the compiler fails where both have one text."""
    types = schema.get("type")
    if isinstance(types, list) and "number" in types:
        schema["type"] = [one for one in types if one != "integer"]


def _given(schema: Schema, *names: str) -> Number | None:
    return next((schema[name] for name in names if _is_number(schema.get(name))), None)


def _keep_factor(schema: Schema, place: str) -> None:
    """Refuse a factor that the compiler would take for another one."""
    if not _is_number(factor := schema.get("multipleOf")):
        return
    decimals = next((at for at in range(_MOST_DECIMALS + 1) if _is_whole(factor * 10**at)), None)
    if not factor > 0 or decimals is None or factor * 10**decimals > _MOST_FACTOR:
        most = f"a factor has at most {_MOST_DECIMALS} decimals, and digits up to {_MOST_FACTOR:,}"
        _refuse(f'"multipleOf": {factor}', place, "cannot be kept to", most)


def _inside(schema: Schema, place: str) -> Iterator[tuple[Any, str]]:
    for keyword in _ONE:
        yield schema.get(keyword), f"{place}/{keyword}"
    for keyword in _LISTS:
        if isinstance(found := schema.get(keyword), list):
            yield from ((one, f"{place}/{keyword}/{at}") for at, one in enumerate(found))
    for keyword in _MAPS:
        if isinstance(found := schema.get(keyword), dict):
            yield from ((one, f"{place}/{keyword}/{name}") for name, one in found.items())


def _says_nothing(keyword: str, schema: Mapping[str, Any]) -> bool:
    """Whether every value keeps to a keyword as it stands."""
    value = schema[keyword]
    if keyword == "if":
        return not {"then", "else"} & schema.keys()
    if keyword in ("then", "else", "minContains", "maxContains"):
        return ("contains" if keyword.endswith("Contains") else "if") not in schema
    if keyword in ("uniqueItems", "not"):
        return value is False
    if keyword == "propertyNames":
        return value in (True, {}, {"type": "string"})
    if keyword.startswith("unevaluated"):
        return value is True or value == {}
    return keyword.startswith("depend") and value == {}


def _numbers(value: Any) -> Iterator[Number]:
    """Yield the numbers in a value of JSON."""
    todo = [value]
    while todo:
        one = todo.pop()
        if _is_number(one):
            yield one
        elif isinstance(one, list | dict):
            todo += one.values() if isinstance(one, dict) else one


def _is_number(value: object) -> TypeGuard[Number]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Number) -> bool:
    return float(value).is_integer()


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")) or value != value:
        raise UsageError(f"the number {text:.40} in the JSON schema cannot be kept to", hint=_RANGE)
    return value


def _refuse(what: str, place: str, why: str, hint: str) -> NoReturn:
    raise UsageError(f"this JSON schema cannot be used: {what}{_at(place)} {why}", hint=hint)


def _at(place: str) -> str:
    return f" at {place}" if place else ""
