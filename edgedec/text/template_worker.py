"""Renders one chat template in a process of its own, under limits of time and memory.

The process reads requests and writes answers, each a JSON object on one line of UTF-8:

    {"source": TEXT}                            {"lines": [[TEMPLATE LINE, CODE LINE], ...]}
    {"variables": {...}, "max_chars": NUMBER}   {"text": TEXT}

Instead of an answer it writes ``{"failed": MESSAGE}`` and ends. A request that crashes the interpreter, or
that cannot be interrupted in time, makes it write Python's dump of its stack and end by a signal. Times are
processor times, so that a busy machine refuses no good template.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from edgedec.core.errors import TemplateError
from edgedec.system import limits
from edgedec.text.sandbox import CompiledTemplate

REQUEST_S = 1.2
"""Longest processor time of a rendering; the first one has the rest that compiling left."""
GRACE_S = 0.3
"""Further time after which the process ends, when one operation takes longer and cannot be interrupted."""
GROWTH_BYTES = 16 << 20
"""Memory that the process may take beyond that of the ready one (see ``limits.address_space``)."""
GROWTH_PER_REQUEST_BYTE = 16
"""And for each byte of a request: messages are copied a few times, at up to four bytes a character."""

_RESERVE_BYTES = 2 << 20
_FAILED = b'{"failed"'
_TOO_SLOW = "the chat template is broken: it takes too long to compile"
_TOO_LARGE = "the chat template is broken: it takes too much memory to compile"


def main() -> None:
    """Answer requests until the input ends or one fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started this one
    limits.dump_at_the_end()
    worker = _Worker()
    for line in sys.stdin.buffer:
        try:
            message = worker.answer(line)
        except TemplateError as error:
            message = _encoded({"failed": error.message})
        except _TooLong as error:  # the time was up as the work was done
            message = _encoded({"failed": f"the chat template failed: {error}"})
        sys.stdout.buffer.write(message)
        sys.stdout.buffer.flush()
        if message.startswith(_FAILED):
            return


def _encoded(answer: dict[str, Any]) -> bytes:
    return (json.dumps(answer, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


class _TooLong(BaseException):
    """The time is up. Raised wherever the template is, which nothing there catches."""


class _Worker:
    """Compiles and renders one template under the limits of this module."""

    def __init__(self) -> None:
        self._ready_bytes = limits.address_space()
        self._template: CompiledTemplate | None = None
        self._left_s = REQUEST_S
        self._reserve = bytearray(_RESERVE_BYTES)
        limits.on_interruption(self._stop)

    def answer(self, line: bytes) -> bytes:
        """Compile the first request's template, render the others'. Raises TemplateError."""
        self._limit_memory(GROWTH_BYTES + GROWTH_PER_REQUEST_BYTE * len(line))
        request: dict[str, Any] = json.loads(line.decode("utf-8", "surrogatepass"))
        begun = time.process_time()
        limits.interrupt_after(self._left_s)
        limits.end_after(self._left_s + GRACE_S)
        try:
            if self._template is None:
                self._template = CompiledTemplate(request["source"])
                return _encoded({"lines": self._template.lines})
            text = self._template.render(request["variables"], request["max_chars"])
            return _encoded({"text": text})
        except _TooLong as error:
            raise self._template.failure(error) if self._template else TemplateError(_TOO_SLOW) from None
        except MemoryError as error:
            del self._reserve  # enough to raise the limit: the traceback's frames still hold the rest
            self._limit_memory(2 * GROWTH_BYTES)
            raise self._template.failure(error) if self._template else TemplateError(_TOO_LARGE) from None
        finally:
            limits.interrupt_after(0)
            limits.end_after(0)
            spent = time.process_time() - begun if "source" in request else 0.0
            self._left_s = max(REQUEST_S - spent, 0.1)

    def _stop(self) -> None:
        raise _TooLong("it takes too long")

    def _limit_memory(self, growth: int) -> None:
        if self._ready_bytes is not None:
            try:
                limits.limit_address_space(self._ready_bytes + growth)
            except OSError as error:
                raise TemplateError(f"no process can render the chat template safely: {error}") from None


if __name__ == "__main__":
    main()
