"""Renders a chat template in a process with limits: see ``template_worker``.

The process starts at the first request and serves all further ones. It ends with the object, with this
program (also when that is killed), and after any failure; the next request starts another.
"""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgedec.core.errors import TemplateError

PROCESS_BYTES = 43_000_000
"""Most memory of the process: Python and Jinja 22 MB, growth 17 MB, a conversation of 250 kB 4 MB."""

_BACKSTOP_S = 30.0
"""A process that neither answers nor ends within this time is killed. A template that loops ends before: its
processor time is limited.
"""
_MAIN = "import sys; sys.path += sys.argv[1:]; from edgedec.text.template_worker import main; main()"
_FRAME = re.compile(r'^  File "<template>", line (\d+) in', re.MULTILINE)


class TemplateProcess:
    """A template rendered in another process. Not for several threads at once.

    Raises TemplateError when the template is not valid Jinja or exceeds its limits, or no process can start.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._process: subprocess.Popen[bytes] | None = None
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
            _end(self._process)
            self._process = None

    def _start(self) -> None:
        places = [str(Path(__file__).parents[2]), *(_import_path(name) for name in ("jinja2", "markupsafe"))]
        command = [sys.executable, "-I", "-S", "-c", _MAIN, *dict.fromkeys(places)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        except OSError as error:
            raise TemplateError(f"cannot start a process for the chat template: {error}") from error
        weakref.finalize(self, _end, self._process)
        self._lines = None
        self._lines = self._ask({"source": self._source})["lines"]

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        stopped = threading.Event()
        try:
            answer = _exchange(self._process, request, stopped)
        except BaseException:  # Ctrl-C too: an answer that nobody read would be taken for the next one's
            self.close()
            raise
        if answer.startswith(b"{"):
            document: dict[str, Any] = json.loads(answer.decode("utf-8", "surrogatepass"))
            if "failed" not in document:
                return document
            self.close()
            raise TemplateError(document["failed"])
        slow = self._process.wait() == -signal.SIGPROF
        self.close()
        if stopped.is_set():
            raise TemplateError(
                f"the process that fills in the chat template gave no answer within {_BACKSTOP_S:.0f} s",
                hint="other programs may take all processor time; try again",
            )
        raise self._ended(answer.decode("utf-8", "replace"), slow)

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


def _exchange(process: subprocess.Popen[bytes], request: dict[str, Any], stopped: threading.Event) -> bytes:
    """Return one line of answer, or everything that the process wrote if it ended instead.

    ``stopped`` is set where it was killed, because it did neither.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    message = json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"

    def stop() -> None:
        stopped.set()
        process.kill()

    backstop = threading.Timer(_BACKSTOP_S, stop)
    backstop.start()
    try:
        process.stdin.write(message)
        process.stdin.flush()
        answer = process.stdout.readline()
        return answer if answer.startswith(b"{") else answer + process.stdout.read()
    except BrokenPipeError:
        return process.stdout.read()
    finally:
        backstop.cancel()


def _import_path(name: str) -> str:
    """Return the folder from which Python imports the package ``name``."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise TemplateError(f"the chat template needs the package {name}, which is not installed")
    return str(Path(spec.origin).parents[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # the rest of a request has no reader
                pipe.close()
