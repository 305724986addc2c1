"""Tools made of Python functions: their parameters' annotations become a JSON schema."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from edgedec.core.errors import UsageError

Tool = Mapping[str, Any] | Callable[..., Any]

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def tools_of(given: Iterable[Tool]) -> tuple[Mapping[str, Any], ...]:
    """Return tools in OpenAI's form; functions are described by ``tool_of``."""
    return tuple(tool_of(one) if callable(one) else one for one in given)


def tool_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Describe a function by its name, the first paragraph of its docstring, and its parameters.

    Annotations are plain types, lists and mappings of them, ``Literal``, unions, and whatever pydantic can
    describe where it is installed. Raises UsageError for a parameter without such an annotation.

    >>> def weather(town: str, days: int = 1) -> str:
    ...     "Tell the weather of a town."
    >>> tool_of(weather)["function"]["parameters"]["properties"]
    {'town': {'type': 'string'}, 'days': {'type': 'integer', 'default': 1}}
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        hints = get_type_hints(function)
        parameters = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"the function {name} cannot be described: {error}") from error
    properties, required = {}, []
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"{name} has the parameter {parameter}, which no call by name can give")
        schema = _schema(hints.get(parameter.name), f"{parameter.name} of {name}")
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif isinstance(parameter.default, str | int | float | None):
            schema = {**schema, "default": parameter.default}
        properties[parameter.name] = schema
    about = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    described = {"name": name, "description": about, "parameters": schema}
    return {"type": "function", "function": described}


def _schema(kind: Any, where: str) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    if kind in (list, dict):
        return {"type": "array" if kind is list else "object"}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(one, where) for one in arguments]}
    if origin in (list, Sequence):
        return {"type": "array", "items": _schema(arguments[0], where)}
    if origin in (dict, Mapping) and arguments[0] is str:
        return {"type": "object", "additionalProperties": _schema(arguments[1], where)}
    return _by_pydantic(kind, where)


def _by_pydantic(kind: Any, where: str) -> dict[str, Any]:
    hint = "annotate it with a plain type such as str, int or list[str]"
    if kind is None or kind is Any:
        raise UsageError(f"the parameter {where} has no type", hint=hint)
    try:
        from pydantic import TypeAdapter

        return TypeAdapter(kind).json_schema()
    except Exception as error:  # no pydantic, or one of its own errors
        raise UsageError(f"the parameter {where} has a type without a JSON schema", hint=hint) from error
