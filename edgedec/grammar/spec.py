"""The form that a reply must have, as a plain value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.grammar.supported_schema import SupportedSchema

GrammarKind = Literal["json_schema", "json_object", "regex", "lark"]
FormSampling = Literal["masked", "unbiased"]

MOST_BYTES = 1_000_000
"""Bytes of UTF-8 that the text of a grammar may have."""
MOST_NESTING = 100
"""Brackets that may be open at once."""
_JSON: tuple[GrammarKind, ...] = ("json_schema", "json_object")
_WORDS = {"json_schema": "JSON schema", "json_object": "JSON object", "regex": "pattern", "lark": "grammar"}
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NO_BRACKET = re.compile(r"\\.|[^\[\](){}]", re.DOTALL)


class GrammarChoice(TypedDict, total=False):
    """The arguments that name the form of a reply, one of the first three at most, and how it is kept to.

    ``schema``: a JSON schema as a mapping, or a pydantic model class. ``regex``: a regular expression that
    the whole text matches. ``grammar``: a grammar in Lark's form, or a ``GrammarSpec``. ``form_sampling``:
    see ``GrammarSpec.sampling``.
    """

    schema: Mapping[str, Any] | type | None
    regex: str | None
    grammar: str | GrammarSpec | None
    form_sampling: FormSampling | None


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """The form that a reply must have. ``text`` is a JSON schema, a regular expression or a Lark grammar.

    Raises UsageError for a text that is too long, too deeply nested, or no JSON where it must be.

    >>> GrammarSpec.of(regex="yes|no")
    GrammarSpec(kind='regex', text='yes|no')
    >>> GrammarSpec.of(schema={"type": "integer"}).parse(" 12 ")
    12
    """

    kind: GrammarKind
    text: str = ""
    model: Any = field(default=None, compare=False, repr=False)
    """The pydantic model class that replies become, if the schema is of one."""
    left_out: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Keywords of schemas that replies do not keep to, with their places: annotations, mostly."""
    cuttable: bool = field(default=False, compare=False, repr=False)
    """Whether a reply may be cut anywhere, as free text may; calls in it have a form."""
    thinks: bool = field(default=False, compare=False, repr=False)
    """Whether a thinking part may stand before a reply of the form."""
    sampling: FormSampling = "masked"
    """The law of replies: "masked" draws each token among those that may come next; "unbiased" draws whole
    replies from the model's own law, given that they have the form.
    """

    def __post_init__(self) -> None:
        if self.kind not in get_args(GrammarKind):
            raise UsageError(f"unknown kind of grammar {self.kind!r:.40}", hint=f"use {', '.join(_WORDS)}")
        if self.sampling not in get_args(FormSampling):
            raise UsageError(
                f"unknown way to draw a form, {self.sampling!r:.40}", hint="use masked or unbiased"
            )
        if not isinstance(self.text, str):
            raise UsageError(f"the {self.name} is no text")
        nbytes = len(self.text.encode("utf-8", "surrogatepass"))
        if nbytes > MOST_BYTES:
            raise UsageError(
                f"the {self.name} has {nbytes:,} bytes",
                hint=f"{MOST_BYTES:,} are possible; use a smaller one",
            )
        if not self.text and self.kind != "json_object":
            raise UsageError(f"the {self.name} is empty")
        if self.kind == "json_schema":
            _check_schema(self.text)
        if (depth := _nesting(self.text, quoted=self.kind == "json_schema")) > MOST_NESTING:
            raise UsageError(
                f"the {self.name} is nested {depth} deep", hint=f"{MOST_NESTING} levels are possible"
            )
        if self.kind == "json_schema":
            object.__setattr__(self, "left_out", _kept(self.text).left_out)

    @classmethod
    def of(
        cls,
        schema: Mapping[str, Any] | type | None = None,
        regex: str | None = None,
        grammar: str | GrammarSpec | None = None,
        form_sampling: FormSampling | None = None,
    ) -> GrammarSpec:
        """Return the form that one of the arguments names; see ``GrammarChoice``."""
        found = chosen_grammar(schema=schema, regex=regex, grammar=grammar, form_sampling=form_sampling)
        if found is None:
            raise UsageError("no grammar was given", hint="give a schema, a pattern or a grammar")
        return found

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | type | str | bool) -> GrammarSpec:
        """Return the form of JSON under a schema: a mapping, its text, or a pydantic model class."""
        if isinstance(schema, str):
            return cls("json_schema", schema)
        model = None
        if isinstance(schema, type):
            model, schema = schema, _schema_of(schema)
        if not isinstance(schema, Mapping | bool):
            raise UsageError(
                f"{schema!r:.60} is no JSON schema", hint="give a mapping or a pydantic model class"
            )
        try:
            text = json.dumps(dict(schema) if isinstance(schema, Mapping) else schema, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"the JSON schema is no JSON: {error}") from error
        except RecursionError as error:
            raise UsageError(
                "the JSON schema is nested too deep", hint=f"{MOST_NESTING} are possible"
            ) from error
        return cls("json_schema", text, model)

    @classmethod
    def json_object(cls) -> GrammarSpec:
        """Return the form of any JSON object."""
        return cls("json_object")

    @classmethod
    def regex(cls, pattern: str) -> GrammarSpec:
        """Return the form of texts that ``pattern`` matches as a whole."""
        return cls("regex", pattern)

    @classmethod
    def lark(cls, grammar: str) -> GrammarSpec:
        """Return the form of texts that a grammar in Lark's form derives from its rule ``start``."""
        return cls("lark", grammar)

    @classmethod
    def of_calls(cls, grammar: str, left_out: tuple[str, ...], *, cuttable: bool = False) -> GrammarSpec:
        """Return the form of replies beside tools: calls, or text with calls, behind a thinking part."""
        return cls("lark", grammar, left_out=left_out, cuttable=cuttable, thinks=True)

    @property
    def name(self) -> str:
        """The kind in words."""
        return _WORDS[self.kind]

    @property
    def parses(self) -> bool:
        """Whether a reply of this form stands for a value."""
        return self.kind in _JSON

    def schema(self) -> Mapping[str, Any]:
        """Return the JSON schema that is kept to. Raises UsageError for a form that is no object of JSON."""
        found = json.loads(_kept(self.text or '{"type": "object"}').text) if self.parses else None
        if not isinstance(found, dict):
            raise UsageError(f"beside tools a reply has a JSON schema, and no {self.name} of another kind")
        return found

    def parse(self, text: str) -> Any:
        """Return the value that ``text`` of this form stands for: of JSON, or an instance of ``model``.

        None for forms without one. Raises ValueError for a text that is no JSON or names a key twice, and for
        one that the model class refuses.
        """
        if not self.parses:
            return None
        try:
            value = json.loads(text, object_pairs_hook=_unique)
        except RecursionError as error:
            raise ValueError("it is nested too deep") from error
        return value if self.model is None else self.model.model_validate_json(text)


def chosen_grammar(**choice: Any) -> GrammarSpec | None:
    """Return the form that the arguments of ``GrammarChoice`` name; None where none is given.

    Raises UsageError for two of them, for other arguments, and for the reasons of ``GrammarSpec``.
    """
    found = _named_grammar(choice)
    sampling = choice.get("form_sampling")
    if sampling is None:
        return found
    if found is None:
        raise UsageError("form_sampling has no form", hint="give a schema, a pattern or a grammar")
    return replace(found, sampling=sampling)


def _named_grammar(choice: dict[str, Any]) -> GrammarSpec | None:
    if unknown := choice.keys() - GrammarChoice.__annotations__.keys():
        raise TypeError(f"unexpected arguments: {', '.join(sorted(unknown))}")
    given = {name: choice[name] for name in choice if choice[name] is not None and name != "form_sampling"}
    if not given:
        return None
    if len(given) > 1:
        raise UsageError(f"{' and '.join(sorted(given))} are given", hint="a reply has one form: give one")
    [(name, value)] = given.items()
    if name == "schema":
        return GrammarSpec.json_schema(value)
    if isinstance(value, GrammarSpec) and name == "grammar":
        return value
    if not isinstance(value, str):
        raise UsageError(f"{name} is no text but {type(value).__name__}", hint="give a text")
    return GrammarSpec.regex(value) if name == "regex" else GrammarSpec.lark(value)


def _closed(schema: Any) -> Any:
    """Return a model class's schema without further keys where it says nothing about them.

    The class would not read them, and a small model can go on with them for ever.
    """
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _closed(one) for name, one in schema.items()}
    return {**found, "additionalProperties": False} if _is_open(schema) else found


def _is_open(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object" and "properties" in schema and "additionalProperties" not in schema


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a key that stands in it twice would hide a value that was asked for."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"it names {twice!r:.60} twice")
    return found


def _schema_of(model: type) -> Any:
    make = getattr(model, "model_json_schema", None)
    if make is None or getattr(model, "model_validate_json", None) is None:
        raise UsageError(
            f"{model.__name__} is no pydantic model", hint="give a mapping or a class that extends BaseModel"
        )
    try:
        return _closed(make())
    except Exception as error:  # pydantic's own errors, which are not imported here
        raise UsageError(f"{model.__name__} has no JSON schema: {error}") from error


def _check_schema(text: str) -> None:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the JSON schema is no JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error
    if not isinstance(found, dict | bool):
        raise UsageError("the JSON schema is no object", hint='as in {"type": "object"}')


def _kept(text: str) -> SupportedSchema:
    from edgedec.grammar.supported_schema import supported_schema  # imports decimal numbers

    return supported_schema(text)


def _too_deep() -> UsageError:
    return UsageError("the JSON schema is nested too deep", hint=f"{MOST_NESTING} levels are possible")


def _nesting(text: str, *, quoted: bool) -> int:
    """Count the brackets that are open at once, at most; ``quoted``: those in strings do not count."""
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text) if quoted else text)
    depth = most = 0
    for one in brackets:
        depth = depth + 1 if one in "[({" else max(depth - 1, 0)
        most = max(most, depth)
    return most
