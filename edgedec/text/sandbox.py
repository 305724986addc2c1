"""Jinja's sandbox for chat templates: no access to internals, no changes to messages, a bounded result.

It bounds neither time nor memory. Templates that are not known therefore run in a process with limits
(``template_process``).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgedec.core.errors import TemplateError

MAX_SOURCE_CHARS = 1_000_000

SOURCE_NAME = "<template>"
"""File name that Jinja gives to a template without a file, as tracebacks show it."""


class CompiledTemplate:
    """A template's program. Not for several threads at once.

    Raises TemplateError, naming the line, when ``source`` is not valid Jinja.
    """

    def __init__(self, source: str) -> None:
        with _broken(source):
            self._template = _environment().from_string(source)

    @property
    def lines(self) -> list[tuple[int, int]]:
        """Pairs (line of the template, first line of its Python code), in the order of the code."""
        return list(self._template.debug_info)

    def render(self, variables: Mapping[str, Any], max_chars: int) -> str:
        """Render to at most ``max_chars`` characters.

        Raises TemplateError, naming the line, when the template fails, refuses the messages (in its own
        words), or writes more; MemoryError when there is no memory.
        """
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

    def failure(self, error: BaseException) -> TemplateError:
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
            if frame.f_code.co_filename == SOURCE_NAME and (found := _code_line(trace)) is not None:
                line = found
                if "__jinja_template__" in frame.f_globals:  # a line of the code that Jinja generated
                    line = self._template.get_corresponding_lineno(line)
            trace = trace.tb_next
        return line


def parsed(source: str) -> nodes.Template:
    """Return the tree of a template. Raises TemplateError, naming the line, when it is not valid Jinja."""
    with _broken(source):
        return _environment().parse(source)


@contextmanager
def _broken(source: str) -> Iterator[None]:
    """Turn what Jinja says about a template that it cannot read into TemplateError."""
    if len(source) > MAX_SOURCE_CHARS:
        raise TemplateError(f"the chat template is longer than {MAX_SOURCE_CHARS:,} characters")
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"the chat template is broken in line {error.lineno}: {error.message}") from error
    except (RecursionError, SyntaxError, ValueError, jinja2.TemplateError) as error:
        raise TemplateError(f"the chat template is broken: {error or type(error).__name__}") from error


class Generation(Extension):
    """``{% generation %}...{% endgeneration %}``, which marks text for training: here just the text."""

    tags = {"generation"}  # noqa: RUF012  (Jinja's own interface)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", Generation],
        cache_size=0,
        optimized=False,  # the optimizer takes the cube of an expression's depth
        finalize=_unchanged,
    )
    environment.globals.pop("lipsum", None)  # filler text
    environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    environment.filters["tojson"] = _to_json
    return environment


def _code_line(trace: TracebackType) -> int | None:
    """Return the line of a traceback's frame; the one before where a signal fell into code without a line."""
    code = trace.tb_frame.f_code
    lines = [line for start, _, line in code.co_lines() if start <= trace.tb_lasti and line is not None]
    return lines[-1] if lines else None


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "too deep a recursion"
    if isinstance(error, MemoryError):
        return "it takes too much memory"
    return str(error) or type(error).__name__


@jinja2.pass_context
def _unchanged(_context: Context, value: Any) -> Any:
    """Keep Jinja from computing outputs as it compiles, where it knows no line."""
    return value


def _to_json(
    value: Any,
    indent: int | None = None,
    ensure_ascii: bool = False,
    sort_keys: bool = False,
    separators: tuple[str, str] | None = None,
) -> str:
    """JSON as chat templates expect it: not escaped for HTML, unlike Jinja's own filter."""
    return json.dumps(
        value, indent=indent, ensure_ascii=ensure_ascii, sort_keys=sort_keys, separators=separators
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateRuntimeError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)
