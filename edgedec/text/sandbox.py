"""Jinja's sandbox, plus bounds on the work and memory that a template can take.

The bounds count loop rounds, calls, filters, tests, and the characters and items that they produce. They stop
most hostile templates early and on every system. They are no proof: one operation inside the interpreter can
still take long. Templates that are not known therefore run in a process with limits (``template_process``).
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from edgedec.core.errors import TemplateError

MAX_STEPS = 500_000
"""Loop rounds, calls, filters and tests in one rendering; a long conversation needs a few thousand."""
MAX_RESULTS = 64
"""All intermediate results together have at most this many times the characters and items of the largest."""
MAX_SOURCE_CHARS = 1_000_000

SOURCE_NAME = "<template>"
"""File name that Jinja gives to a template without a file, as tracebacks show it."""

# Operations on a text that take the width of their result.
_WIDTHS = {"batch", "center", "expandtabs", "indent", "ljust", "rjust", "slice", "zfill"}
_HUGE_WIDTH = re.compile(r"\d{6}|\*")


class BoundsError(jinja2.TemplateRuntimeError):
    """A template wants more than it may have."""


class CompiledTemplate:
    """A template's program. Not for several threads at once.

    Raises TemplateError, naming the line, when ``source`` is not valid Jinja.
    """

    def __init__(self, source: str) -> None:
        if len(source) > MAX_SOURCE_CHARS:
            raise TemplateError(f"the chat template is longer than {MAX_SOURCE_CHARS:,} characters")
        self._environment = BoundedEnvironment({"tojson": _to_json})
        try:
            self._template = self._environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"the chat template is broken in line {error.lineno}: {error.message}"
            ) from error
        except (RecursionError, SyntaxError, ValueError, jinja2.TemplateError) as error:
            raise TemplateError(f"the chat template is broken: {error or type(error).__name__}") from error

    @property
    def lines(self) -> list[tuple[int, int]]:
        """Pairs (line of the template, first line of its Python code), in the order of the code."""
        return list(self._template.debug_info)

    def render(self, variables: Mapping[str, Any], max_chars: int) -> str:
        """Render to at most ``max_chars`` characters; no intermediate text or list may be larger.

        Raises TemplateError, naming the line, when the template fails, refuses the messages (in its own
        words), or exceeds its bounds; MemoryError when there is no memory.
        """
        self._environment.start(max_chars)
        pieces: list[str] = []
        try:
            for piece in self._template.generate(variables):
                pieces.append(piece)
                max_chars -= len(piece)
                if max_chars < 0:
                    raise OverflowError("it writes too much text")
        except MemoryError:
            raise
        except Exception as error:  # a template can fail in any way that Python can
            raise self.failure(error) from error
        return "".join(pieces)

    def stop(self) -> None:
        """Make the rendering in progress fail at its next step. A signal handler may call this."""
        self._environment.stop()

    def failure(self, error: Exception) -> TemplateError:
        """Say why and in which line the rendering that raised ``error`` failed."""
        line: int | None = None
        cause: BaseException | None = error
        while line is None and cause is not None:  # an error in an error's handler has the first as context
            line, cause = self._line(cause), cause.__context__
        where = f" in line {line}" if line is not None else ""
        return TemplateError(f"the chat template failed{where}: {_reason(error)}")

    def _line(self, error: BaseException) -> int | None:
        """Return the innermost line of the template in an error's traceback."""
        line, trace = None, error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            if frame.f_code.co_filename == SOURCE_NAME and trace.tb_lineno is not None:
                line = trace.tb_lineno
                if "__jinja_template__" in frame.f_globals:  # a line of the code that Jinja generated
                    line = self._template.get_corresponding_lineno(line)
            trace = trace.tb_next
        return line


class Generation(Extension):
    """``{% generation %}...{% endgeneration %}``, which marks text for training: here just the text."""

    tags = {"generation"}  # noqa: RUF012  (Jinja's own interface)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Raises BoundsError while rendering a template that loops too often or builds texts or lists too large.

    Every loop body gets a counting statement, and ``~`` and slices get checked implementations when the
    template is parsed. Operators, calls, filters, tests and outputs are checked as they run. Call ``start``
    before each rendering.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, filters: Mapping[str, Callable[..., Any]]) -> None:
        extensions = ["jinja2.ext.loopcontrols", Generation]
        # The optimizer computes constants outside the bounds, and takes the cube of an expression's depth.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=extensions,
            cache_size=0,
            optimized=False,
            finalize=self._count_output,
        )
        self._steps = 0
        self._stopped = False
        self._limit = 0
        self._left = 0
        self.globals.pop("lipsum", None)  # writes as much as it is asked to, in one step
        self.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
        self.filters.update(filters)
        for table, prefix in ((self.filters, ""), (self.tests, "is ")):
            run: Any
            for name, run in list(table.items()):
                table[name] = self._checked(run, prefix + name)
        self.filters.update(_step=self._count_step, _joined=self._concatenate, _sliced=self._slice)

    def start(self, max_size: int) -> None:
        """Begin a rendering that may build texts and lists of at most ``max_size`` characters or items."""
        self._steps = 0
        self._stopped = False
        self._limit = max_size
        self._left = MAX_RESULTS * max_size

    def stop(self) -> None:
        """End the rendering at its next step. Any thread or signal handler may call this."""
        self._stopped = True

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
        self._step()

    @jinja2.pass_context
    def _count_output(self, context: Context, value: Any) -> Any:
        return self._check(value if isinstance(value, str) else str(value))

    @jinja2.pass_context
    def _concatenate(self, context: Context, parts: list[Any]) -> str:
        texts = [str(part) for part in parts]
        self._check_size(sum(map(len, texts)))
        text: str = self._check("".join(texts))
        return text

    @jinja2.pass_context
    def _slice(self, context: Context, value: Any, *bounds: Any) -> Any:
        return self._check(value[slice(*bounds)])

    def _checked(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        passes = getattr(function, "jinja_pass_arg", None)

        def checked(*args: Any, **kwargs: Any) -> Any:
            self._step()
            own = args[1:] if passes else args
            if own and name == "join":
                own = (list(own[0]), *own[1:])
                self._check_growth(name, str(own[1]) if len(own) > 1 else "", [own[0]])
            elif own and name in _GROWING:
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
        """Count the size of a result; the items of an iterator when they are taken."""
        if isinstance(value, str | list | tuple | dict):
            self._check_size(len(value))
            self._left -= len(value)
            if self._left < 0:
                raise BoundsError(
                    f"it builds more than {MAX_RESULTS * self._limit:,} characters and items in all"
                )
        elif isinstance(value, Iterator):
            return map(self._check_item, value)
        return value

    def _check_item(self, item: Any) -> Any:
        self._step()
        return self._check(item)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise BoundsError(f"it builds a text or list of more than {self._limit:,} characters or items")

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS or self._stopped:
            raise BoundsError("it takes too long" if self._stopped else f"it takes over {MAX_STEPS:,} steps")


_GROWING = _WIDTHS | {"format", "replace", "wordwrap"}


class _Counting(NodeTransformer):
    """Adds the counting of loop rounds; sends ``a ~ b`` and ``a[b:c]`` through checked filters."""

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

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        bounds = (node.arg.start, node.arg.stop, node.arg.step)
        none = nodes.Const(None, lineno=node.lineno)
        return self._filter(node.node, "_sliced", [none if bound is None else bound for bound in bounds])

    def _filter(self, operand: nodes.Expr, name: str, args: list[nodes.Expr] | None = None) -> nodes.Filter:
        made = nodes.Filter(operand, name, args or [], [], None, None, lineno=operand.lineno)
        made.set_environment(self._environment)
        return made


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "too deep a recursion"
    if isinstance(error, MemoryError):
        return "it takes too much memory"
    return str(error) or type(error).__name__


def _size(value: Any) -> int:
    """Length of a text or list, magnitude of an integer, else 1."""
    if isinstance(value, str | list | tuple):
        return len(value)
    return abs(value) if isinstance(value, int) else 1


def _to_json(
    value: Any, indent: int | None = None, ensure_ascii: bool = False, sort_keys: bool = False
) -> str:
    """JSON as chat templates expect it: not escaped for HTML, unlike Jinja's own filter."""
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateRuntimeError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)
