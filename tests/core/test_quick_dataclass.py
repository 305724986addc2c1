"""The quick ``dataclass`` beside the standard one: the same classes, field by field and method by method."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from typing import Any, ClassVar

import pytest

from edgedec.core.quick_dataclass import dataclass

Decorator = Callable[..., Any]
KINDS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "eq": False},
    {"eq": False, "repr": False},
]

CALLS: list[Callable[[Any], object]] = [
    lambda made: dataclasses.asdict(made(number=1, listed=[2])),
    lambda made: re.sub("at 0x.*", "", repr(made(number=1, named=2))),
    lambda made: made(1, "x").text,
    lambda made: made(),
    lambda made: made(number=1, other=2),
    lambda made: made(1, number=1),
    lambda made: made(1, "x", [], 3, 4, 5, 6, 7),
    lambda made: made(1, made=2),
    lambda made: made(number=-1),
    lambda made: made(number=1) == made(number=1),
    lambda made: made(number=1, hidden=8) == made(number=1, hidden=9),
    lambda made: made(number=1) == made(number=2),
    lambda made: made(number=1) == 1,
    lambda made: dataclasses.replace(made(number=1), number=5).number,
    lambda made: setattr(made(number=1), "number", 2),
    lambda made: delattr(made(number=1), "number"),
    lambda made: hasattr(made(number=1), "__dict__"),
    lambda made: made.__hash__ is None,
    lambda made: made.__match_args__,
    lambda made: dataclasses.asdict(copy.deepcopy(made(number=1, listed=[2]))),
    lambda made: made(number=1).listed is made(number=1).listed,
    lambda made: (made.__doc__, made.__name__, made.shared),
]
"""Uses of the classes below, the wrong ones among them."""


def classes(decorator: Decorator, **options: bool) -> tuple[Any, Any]:
    """Make a class with fields of all sorts, and one below it."""

    @decorator(**options)
    class Base:
        """Described."""

        shared: ClassVar[int] = 7
        number: int
        text: str = "a"
        listed: list[int] = field(default_factory=list)
        hidden: int = field(default=3, repr=False, compare=False)
        made: int = field(default=4, init=False)
        named: int = field(default=5, kw_only=True)

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("below zero")

    @decorator(**options)
    class Derived(Base):  # type: ignore[misc,valid-type]
        """Described, too."""

        more: tuple[int, ...] = ()
        text: str = "b"

    return Base, Derived


def outcome(call: Callable[[], object]) -> object:
    """Return what a call returns, or its error."""
    try:
        return call()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("before", [0, 40])
def test_it_makes_the_classes_of_the_standard_library(
    options: dict[str, bool], which: int, before: int
) -> None:
    """``before``: so many instances are there already, with which a constructor is compiled or not yet."""

    def made(decorator: Decorator) -> Any:
        found = classes(decorator, **options)[which]
        for _ in range(before):
            found(number=1)
        return found

    for call in CALLS:
        quick, standard = made(dataclass), made(dataclasses.dataclass)
        assert outcome(lambda: call(quick)) == outcome(lambda: call(standard))  # noqa: B023 - called at once
    assert str(inspect.signature(quick)) == str(inspect.signature(standard))
    assert [repr(one) for one in dataclasses.fields(quick)] == [
        repr(one) for one in dataclasses.fields(standard)
    ]


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


class Placed(Point):
    """A plain class below a frozen one may have attributes of its own."""


@dataclass(frozen=True)
class Cached:
    x: int

    @cached_property
    def twice(self) -> int:
        return 2 * self.x


@dataclass(frozen=True, slots=True)
class Own:
    x: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 5

    def __repr__(self) -> str:
        return "own"


def test_instances_are_copied_pickled_matched_and_hashed() -> None:
    point = Point(1, 2)
    assert pickle.loads(pickle.dumps(point)) == copy.copy(point) == point
    assert {Point(1, 2): "here"}[point] == "here"
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 3  # type: ignore[misc]
    placed = Placed(1)
    placed.colour = "red"  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        placed.x = 3  # type: ignore[misc]
    assert Cached(4).twice == 8
    assert (repr(Own(1)), hash(Own(1)), Own(1) == Own(2)) == ("own", 5, True)


def test_a_field_without_a_hash_of_its_own_is_compared_and_not_hashed() -> None:
    @dataclass(frozen=True, slots=True)
    class Limited:
        name: str
        limits: dict[str, int] = field(default_factory=dict, hash=False)

    assert hash(Limited("a", {"b": 1})) == hash(Limited("a"))
    assert Limited("a", {"b": 1}) != Limited("a")


def test_an_instance_that_holds_itself_is_shown() -> None:
    @dataclass
    class Loop:
        inner: Any = None

    loop = Loop()
    loop.inner = loop
    assert "inner=..." in repr(loop)


def test_a_constructor_is_compiled_for_a_class_with_many_instances() -> None:
    code = (
        "import builtins; from edgedec.core.quick_dataclass import dataclass; compiled = []; run = exec\n"
        "def counted(*given): compiled.append(given[0]); run(*given)\n"
        "builtins.exec = counted\n"
        "@dataclass(frozen=True, slots=True)\n"
        "class Point:\n    x: int\n    y: int = 0\n"
        "for made in (1, 2, 100): [Point(1) for _ in range(made)]; print(len(compiled))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0", "1"]
