"""``dataclass`` as in the standard library, but quick to define: a start defines some 150 of them.

The standard one compiles up to seven methods for each class, which takes a third of a millisecond. This one
lets it find the fields, and compiles the constructor alone, of a class that has dozens of instances. The
other methods share their code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cached_property, partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True, repr=True):
        """Decorate a class as ``dataclasses.dataclass`` does."""

        def decorate(cls):
            own = _own_methods(cls)
            cls.__doc__ = cls.__doc__ or cls.__name__  # else its signature, which takes long to write
            made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
            fields = dataclasses.fields(made)
            methods = [("__init__", _Constructor(made, frozen))]
            if repr:
                methods.append(("__repr__", _repr_of(fields)))
            if eq:
                methods += _comparison_of(fields, frozen)
            if frozen:
                methods += _refusals_of(made, fields)
            if frozen and slots:
                methods += _copying_of(fields)
            for name, method in methods:
                if name not in own:
                    setattr(made, name, method)
            return made

        return decorate if cls is None else decorate(cls)


Fields = tuple[Field[Any], ...]
Methods = Iterator[tuple[str, Any]]


def _own_methods(cls: type) -> set[str]:
    """Return what a class defines itself. Python adds a hash of None to one that defines equality alone."""
    found = set(vars(cls))
    return found - {"__hash__"} if "__eq__" in found and vars(cls)["__hash__"] is None else found


class _Factory:
    """Stands for a default that is made anew for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_FEW = 32
"""Instances of a class that are made without a compiled constructor."""


class _Constructor:
    """Stands for ``__init__`` and makes the first instances; the compiled one replaces it after some.

    To compile one takes as long as it saves in dozens of instances, and most classes have fewer.
    """

    def __init__(self, home: type, frozen: bool) -> None:
        self._home, self._frozen, self._made = home, frozen, 0

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        self._made += 1
        return self._compiled(instance, owner) if instance is None else partial(self._fill, instance)

    def _compiled(self, instance: object, owner: type | None = None) -> Any:
        made = _constructor_of(self._home, self._frozen)
        setattr(self._home, "__init__", made)  # noqa: B010 - of any class
        return made.__get__(instance, owner)

    @cached_property
    def _fields(self) -> Fields:
        return dataclasses.fields(self._home)

    @cached_property
    def _by_place(self) -> list[str]:
        return [one.name for one in self._fields if one.init and not one.kw_only]

    @cached_property
    def _then(self) -> bool:
        return _has_more(self._home)

    def _fill(self, instance: object, /, *given: Any, **named: Any) -> None:
        values = dict(zip(self._by_place, given, strict=False)) | named
        few = self._made <= _FEW and len(values) == len(given) + len(named)
        if not few or not self._put(instance, values):
            self._compiled(instance)(*given, **named)  # it names what is wrong, if so
        elif self._then:
            instance.__post_init__()  # type: ignore[attr-defined]

    def _put(self, instance: object, values: dict[str, Any]) -> bool:
        """Set the fields of an instance, of ``values`` and defaults; whether all of these were of use."""
        made: list[tuple[str, Any]] = []
        for one in self._fields:
            if one.init and one.name in values:
                made.append((one.name, values.pop(one.name)))
            elif one.default_factory is not MISSING:
                made.append((one.name, one.default_factory()))
            elif one.default is not MISSING:
                made.append((one.name, one.default))
            elif one.init:
                return False
        put = object.__setattr__ if self._frozen else setattr
        for name, value in made:
            put(instance, name, value)
        return not values


def _has_more(cls: type) -> bool:
    """Whether a constructor goes on in ``__post_init__``."""
    return any("__post_init__" in vars(one) for one in cls.__mro__)


def _constructor_of(cls: Any, frozen: bool) -> Any:
    """Compile the constructor of a class."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": _FACTORY}
    by_place, by_name, lines = list[str](), ["*"], list[str]()
    fields = dataclasses.fields(cls)
    for one in fields:
        default, value = _default_of(one, names)
        if one.init:
            (by_name if one.kw_only else by_place).append(one.name + default)
        if value:
            lines.append(f"_set(self, {one.name!r}, {value})" if frozen else f"self.{one.name} = {value}")
    if _has_more(cls):
        lines.append("self.__post_init__()")
    given = ", ".join(["self", *by_place, *(by_name if len(by_name) > 1 else ())])
    exec(f"def __init__({given}):\n  " + "\n  ".join(lines or ["pass"]), names)
    made = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    types = {one.name: one.type for one in fields if one.init}
    made.__annotations__ = types | {"return": None}
    return made


def _default_of(field: Field[Any], names: dict[str, Any]) -> tuple[str, str]:
    """Return how a parameter ends, and the value that its field gets; ``names`` gets what they refer to."""
    name, own = field.name, f"_of_{field.name}"
    if field.default_factory is not MISSING:
        names[own] = field.default_factory
        return "=_missing", f"{own}() if {name} is _missing else {name}" if field.init else f"{own}()"
    if field.default is not MISSING:
        names[own] = field.default
        return f"={own}", name if field.init else own
    return "", name if field.init else ""


def _repr_of(fields: Fields) -> Any:
    names = [one.name for one in fields if one.repr]

    @recursive_repr()
    def shown(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return shown


def _comparison_of(fields: Fields, frozen: bool) -> Methods:
    names = [one.name for one in fields if one.compare]
    values = attrgetter(*names) if names else lambda _: ()
    counted = [one.name for one in fields if (one.compare if one.hash is None else one.hash)]
    hashable = attrgetter(*counted) if counted else lambda _: ()

    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(hashable(self))

    yield "__eq__", equal
    yield "__hash__", hashed if frozen else None


def _refusals_of(cls: Any, fields: Fields) -> Methods:
    """Make the methods of a frozen class; a class below it may have more attributes, which are its own."""
    names = frozenset(one.name for one in fields)

    def set_one(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_one(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    yield "__setattr__", set_one
    yield "__delattr__", delete_one


def _copying_of(fields: Fields) -> Methods:
    """Make what copies and pickles call: they would assign to the fields."""
    names = [one.name for one in fields]

    def state(self: object) -> list[Any]:
        return [getattr(self, name) for name in names]

    def restore(self: object, values: list[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    yield "__getstate__", state
    yield "__setstate__", restore
