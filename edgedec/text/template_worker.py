"""Renders one chat template in a process of its own, under limits of time and memory.

The process reads requests and writes answers, each a JSON object on one line of UTF-8:

    {"source": TEXT}                            {"lines": [[TEMPLATE LINE, CODE LINE], ...]}
    {"variables": {...}, "max_chars": NUMBER}   {"text": TEXT}

Instead of an answer it writes ``{"failed": MESSAGE}``, or, when a request takes longer than ``REQUEST_S`` or
crashes the interpreter, Python's dump of its stack, and ends. Reading and writing the request is not counted.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from edgedec.core.errors import TemplateError
from edgedec.text.sandbox import BoundsError, CompiledTemplate

REQUEST_S = 1.2
"""Longest time for a rendering; the first one has the rest that compiling left."""
GRACE_S = 0.3
"""Further time after which the process ends, when one operation takes longer and cannot be interrupted."""
GROWTH_BYTES = 32 << 20
"""Address space that the process may take beyond that of the ready process."""
GROWTH_PER_REQUEST_BYTE = 16
"""And for each byte of a request: messages are copied a few times, at up to four bytes a character."""

_TOO_LARGE = "the chat template is broken: it takes too much memory to compile"


def main() -> None:
    """Answer requests until the input ends or one fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started this one
    faulthandler.enable(sys.stdout)
    worker = _Worker()
    for line in sys.stdin.buffer:
        answer = worker.answer(line)
        text = json.dumps(answer, ensure_ascii=False) + "\n"
        sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
        sys.stdout.buffer.flush()
        if "failed" in answer:
            return


class _Worker:
    """Compiles and renders one template under the limits of this module."""

    def __init__(self) -> None:
        faulthandler.dump_traceback_later(REQUEST_S, exit=True, file=sys.stdout)
        faulthandler.cancel_dump_traceback_later()  # the stack of its thread is now part of the count
        self._ready_bytes = _address_space()
        self._template: CompiledTemplate | None = None
        self._left_s = REQUEST_S
        signal.signal(signal.SIGALRM, self._stop)

    def answer(self, line: bytes) -> dict[str, Any]:
        """Compile the first request's template, render the others'."""
        self._limit_memory(GROWTH_BYTES + GROWTH_PER_REQUEST_BYTE * len(line))
        request: dict[str, Any] = json.loads(line.decode("utf-8", "surrogatepass"))
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, self._left_s)
        faulthandler.dump_traceback_later(self._left_s + GRACE_S, exit=True, file=sys.stdout)
        try:
            if self._template is None:
                self._template = CompiledTemplate(request["source"])
                return {"lines": self._template.lines}
            return {"text": self._template.render(request["variables"], request["max_chars"])}
        except TemplateError as error:
            return {"failed": error.message}
        except MemoryError as error:
            self._limit_memory(2 * GROWTH_BYTES)  # the frames of the traceback still hold the memory
            return {"failed": str(self._template.failure(error)) if self._template else _TOO_LARGE}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
            spent = time.monotonic() - begun if "source" in request else 0.0
            self._left_s = max(REQUEST_S - spent, 0.1)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        if self._template is None:
            raise BoundsError("it takes too long to compile")
        self._template.stop()

    def _limit_memory(self, growth: int) -> None:
        if self._ready_bytes is None:
            return
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        with suppress(ValueError):  # the system's own limit is lower, and holds
            resource.setrlimit(resource.RLIMIT_AS, (self._ready_bytes + growth, hard))


def _address_space() -> int | None:
    """Return the bytes of address space in use; None on systems that do not limit it (all but Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
