"""Renders a chat template in a process with limits: see ``template_worker``.

The process starts at the first request and serves all further ones. It ends with the object, with this
program (also when that is killed), and after any failure; the next request starts another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import TemplateError
from edgedec.system.limits import TIME_UP
from edgedec.text.line_process import LineProcess, ProcessEnded

PROCESS_BYTES = 43_000_000
"""Most memory of the process: Python and Jinja 22 MB, growth 17 MB, a conversation of 250 kB 4 MB."""

_BACKSTOP_S = 30.0
"""A process that neither answers nor ends within this time is killed. A template that loops ends before: its
processor time is limited.
"""
_FRAME = re.compile(r'^  File "<template>", line (\d+) in', re.MULTILINE)


class TemplateProcess:
    """A template rendered in another process. Not for several threads at once.

    Raises TemplateError when the template is not valid Jinja or exceeds its limits, or no process can start.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._process: LineProcess | None = None
        self._lines: list[list[int]] | None = None
        self._start()

    def render(self, variables: Mapping[str, Any], max_chars: int) -> str:
        """Render to at most ``max_chars`` characters.

        Raises TemplateError, naming the line, when the template fails, refuses the messages (in its own
        words), or takes too long or too much memory. The line is missing where no memory is left to find it.
        """
        if self._process is None:
            self._start()
        text: str = self._ask({"variables": dict(variables), "max_chars": max_chars})["text"]
        return text

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _start(self) -> None:
        try:
            self._process = LineProcess("edgedec.text.template_worker", ("jinja2", "markupsafe"))
        except OSError as error:
            raise TemplateError(f"cannot start a process for the chat template: {error}") from error
        except ImportError as error:
            raise TemplateError(f"cannot read the chat template: {error}") from error
        self._lines = None
        self._lines = self._ask({"source": self._source})["lines"]

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        try:
            document = self._process.ask(request, _BACKSTOP_S)
        except ProcessEnded as ended:
            self._process = None
            if ended.stopped:
                raise TemplateError(
                    f"the process that fills in the chat template gave no answer within {_BACKSTOP_S:.0f} s",
                    hint="other programs may take all processor time; try again",
                ) from None
            slow = ended.code == TIME_UP
            raise self._ended(ended.written.decode("utf-8", "replace"), slow) from None
        except BaseException:
            self._process = None
            raise
        if "failed" in document:
            self.close()
            raise TemplateError(document["failed"])
        return document

    def _ended(self, dump: str, slow: bool) -> TemplateError:
        """Say where the process ended, by the stack that it wrote before."""
        if self._lines is None:
            how = "takes too long to compile" if slow else "crashes the compiler"
            return TemplateError(f"the chat template is broken: it {how}")
        reason = "it takes too long" if slow else "it crashed its process"
        frame = _FRAME.search(dump)
        where = f" in line {_line(int(frame[1]), self._lines)}" if frame else ""
        return TemplateError(f"the chat template failed{where}: {reason}")


def _line(code_line: int, lines: list[list[int]]) -> int:
    """Return the line of the template that became the line ``code_line`` of Python."""
    return next((line for line, first in reversed(lines) if first <= code_line), 1)
