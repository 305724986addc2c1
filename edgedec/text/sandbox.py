"""Jinja's sandbox, plus bounds on the work and memory that a template can take."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_STEPS = 300_000
"""Loop rounds and calls in one rendering; a long conversation needs a few thousand."""

# Operations on a text that take the width of their result.
_WIDTHS = {"batch", "center", "expandtabs", "indent", "ljust", "rjust", "slice", "zfill"}
_HUGE_WIDTH = re.compile(r"\d{6}|\*")


class BoundsError(jinja2.TemplateRuntimeError):
    """A template wants more than it may have."""


class Generation(Extension):
    """``{% generation %}...{% endgeneration %}``, which marks text for training: here just the text."""

    tags = {"generation"}  # noqa: RUF012  (Jinja's own interface)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Raises BoundsError while rendering a template that loops too often or builds texts or lists too large.

    Every loop body gets a counting statement and ``~`` a checked implementation when the template is parsed;
    operators, calls and the filters that can grow a text are checked as they run. Call ``start`` before each
    rendering.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, filters: Mapping[str, Callable[..., Any]]) -> None:
        extensions = ["jinja2.ext.loopcontrols", Generation]
        # The optimizer computes constants outside the bounds, and takes the cube of an expression's depth.
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=extensions, cache_size=0, optimized=False
        )
        self._steps = 0
        self._limit = 0
        self.globals.pop("lipsum", None)  # writes as much as it is asked to, in one step
        self.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
        self.filters.update(filters)
        for name in ("batch", "center", "format", "indent", "join", "replace", "slice", "wordwrap"):
            self.filters[name] = self._checked(self.filters[name], name)
        self.filters.update(_step=self._count_step, _joined=self._concatenate)

    def start(self, max_size: int) -> None:
        """Begin a rendering that may build texts and lists of at most ``max_size`` characters or items."""
        self._steps = 0
        self._limit = max_size

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._count_step(context)
        # The sandbox wraps str.format; the method is inside.
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(owner, str):
            self._check_growth(obj.__name__, owner, [*args, *kwargs.values()])
        return self._check(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and max(_size(left), _size(right)) > 64:
            raise BoundsError("it takes a power of a number above 64")
        if operator == "*":
            self._check_size(_size(left) * _size(right))
        if operator == "%" and isinstance(left, str):
            self._check_growth("format", left, [])
        return self._check(super().call_binop(context, operator, left, right))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Counting(self).visit(super()._parse(source, name, filename))
        return tree

    @jinja2.pass_context
    def _count_step(self, context: Context, value: None = None) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise BoundsError(f"it takes more than {MAX_STEPS:,} steps")

    @jinja2.pass_context
    def _concatenate(self, context: Context, parts: list[Any]) -> str:
        texts = [str(part) for part in parts]
        self._check_size(sum(map(len, texts)))
        return "".join(texts)

    def _checked(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        passes = getattr(function, "jinja_pass_arg", None)

        def checked(*args: Any, **kwargs: Any) -> Any:
            own = args[1:] if passes else args
            if own and name == "join":
                own = (list(own[0]), *own[1:])
                self._check_growth(name, str(own[1]) if len(own) > 1 else "", [own[0]])
            elif own:
                self._check_growth(name, str(own[0]), [*own[1:], *kwargs.values()])
            return self._check(function(*args[:1], *own, **kwargs) if passes else function(*own, **kwargs))

        if passes:
            checked.jinja_pass_arg = passes  # type: ignore[attr-defined]
        return checked

    def _check_growth(self, name: str, text: str, args: list[Any]) -> None:
        """Refuse, before it runs, a text operation whose result may be too large."""
        for number in args:
            if name in _WIDTHS and isinstance(number, int):
                self._check_size(number * (text.count("\n") + 1))
        if name in ("format", "format_map") and _HUGE_WIDTH.search(text):
            raise BoundsError("it pads a text to a huge width")
        if name == "replace" and len(args) > 1:
            self._check_size(len(text) + text.count(str(args[0])) * len(str(args[1])))
        if name == "join" and args and isinstance(args[0], list | tuple):
            self._check_size(sum(len(str(part)) + len(text) for part in args[0]))

    def _check(self, value: Any) -> Any:
        if isinstance(value, str | list | tuple | dict):
            self._check_size(len(value))
        return value

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise BoundsError(f"it builds a text or list of more than {self._limit:,} characters or items")


class _Counting(NodeTransformer):
    """Adds the counting of loop rounds, and sends ``a ~ b`` through the filter ``_joined``."""

    def __init__(self, environment: BoundedEnvironment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802  (Jinja's own interface)
        self.generic_visit(node)
        count = self._filter(nodes.Const(None, lineno=node.lineno), "_step")
        node.body.insert(0, nodes.ExprStmt(count, lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return self._filter(nodes.List(node.nodes, lineno=node.lineno), "_joined")

    def _filter(self, operand: nodes.Expr, name: str) -> nodes.Filter:
        made = nodes.Filter(operand, name, [], [], None, None, lineno=operand.lineno)
        made.set_environment(self._environment)
        return made


def _size(value: Any) -> int:
    """Length of a text or list, magnitude of an integer, else 1."""
    if isinstance(value, str | list | tuple):
        return len(value)
    return abs(value) if isinstance(value, int) else 1


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateRuntimeError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)
