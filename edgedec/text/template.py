"""Chat templates: Jinja programs that come with a model, and are not to be trusted.

They run sandboxed (no attribute tricks, no changing of the messages) and bounded: in steps (loop rounds and
calls), in the length of any text or list they build, and in the length of the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from edgedec.core.errors import BadFileError, Remedy, TemplateError

if TYPE_CHECKING:
    from jinja2 import Template

    from edgedec.text.sandbox import BoundedEnvironment

FILE_NAME = "chat_template.jinja"
MAX_CHARS = 1_000_000
"""Most characters of the result, and of any text on the way, beyond what the messages themselves bring."""

_SOURCE_NAME = "<template>"  # what Jinja calls a template that has no file


class ChatTemplate:
    """A template. ``bos`` and ``eos`` are the texts it sees as ``bos_token`` and ``eos_token``.

    It is compiled when it is first needed: raw prompts neither wait for that nor fail with it.
    """

    def __init__(self, source: str, *, bos: str, eos: str) -> None:
        self.source = source
        self._bos = bos
        self._eos = eos
        self._compiled: tuple[BoundedEnvironment, Template] | None = None

    @classmethod
    def load(cls, bundle_dir: Path, *, bos: str, eos: str) -> ChatTemplate | None:
        """The bundle's template, or None for a model without one. BadFileError when it cannot be read."""
        path = bundle_dir / FILE_NAME
        try:
            source = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise BadFileError(
                f"cannot read {path}: {error}", hint="export or pull the model again"
            ) from error
        return cls(source, bos=bos, eos=eos)

    def compile(self) -> tuple[BoundedEnvironment, Template]:
        """Raises TemplateError, naming the line, when the source is not valid Jinja."""
        if self._compiled is None:
            self._compiled = _compile(self.source)
        return self._compiled

    def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> str:
        """The prompt for ``messages`` (each with ``role`` and ``content``).

        Raises TemplateError, naming the line, when the template is not valid, fails, refuses the messages (in
        its own words), or exceeds its bounds.
        """
        variables = {
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self._bos,
            "eos_token": self._eos,
            "tools": None,
            "documents": None,
        }
        # A template may repeat some of the contents, never many times over.
        budget = MAX_CHARS + 4 * sum(len(value) for message in messages for value in message.values())
        environment, template = self.compile()
        environment.start(budget)
        pieces: list[str] = []
        try:
            for piece in template.generate(variables):
                pieces.append(piece)
                budget -= len(piece)
                if budget < 0:
                    raise OverflowError("it writes too much text")
        except Exception as error:  # a template can fail in any way that Python can
            raise _failure(error, error.__traceback__) from error
        return "".join(pieces)


def _compile(source: str) -> tuple[BoundedEnvironment, Template]:
    import jinja2  # slow import, needed only when there is a template

    from edgedec.text.sandbox import BoundedEnvironment

    if len(source) > MAX_CHARS:
        raise _broken(f"is longer than {MAX_CHARS:,} characters")
    environment = BoundedEnvironment({"tojson": _to_json})
    try:
        return environment, environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise _broken(f"is broken in line {error.lineno}: {error.message}") from error
    except (RecursionError, SyntaxError, ValueError, jinja2.TemplateError) as error:
        raise _broken(f"is broken: {error or type(error).__name__}") from error


def _broken(how: str) -> TemplateError:
    return TemplateError(
        f"the chat template {how}", hint="complete a text without the template", remedy=Remedy("raw")
    )


def _failure(error: BaseException, trace: TracebackType | None) -> TemplateError:
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _SOURCE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f" in line {line}" if line is not None else ""
    reason = (
        "too deep a recursion" if isinstance(error, RecursionError) else str(error) or type(error).__name__
    )
    return _broken(f"failed{where}: {reason}")


def _to_json(
    value: Any, indent: int | None = None, ensure_ascii: bool = False, sort_keys: bool = False
) -> str:
    """JSON as chat templates expect it: not escaped for HTML, unlike Jinja's own filter."""
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, sort_keys=sort_keys)
