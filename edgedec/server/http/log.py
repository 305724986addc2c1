"""The log: one JSON object a line, or words for a terminal; no text of prompts and replies, and no keys.

A thread writes it, so that nobody waits for a reader of the log that stands still; then lines are lost, and
the next one says how many.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from edgedec.server.http.exchange import Exchange

LEVELS = ("info", "warning", "error")
"""Every request; those that failed or were refused; failures of the server alone."""
_OTHERS = ("uvicorn", "asyncio")
_PERCENTAGE = re.compile(r": \d+%$")
_FETCHES = ("GET", "HEAD", "OPTIONS")
_PATH_CHARS = 200
_MOST_WAITING = 1000
_LAST_LINES_S = 1.0
_STDERR = 2


def _to_stderr(line: str) -> None:
    # Not through sys.stderr, whose lock the interpreter needs at its end.
    os.write(_STDERR, line.encode())


class Log:
    """Hands lines of at least ``level`` to ``write``; ``close`` it at the end.

    ``words``: in words, and without the pages and figures that clients fetch all the time.
    """

    def __init__(
        self, write: Callable[[str], object] = _to_stderr, level: str = "info", *, words: bool = False
    ) -> None:
        self._write = write
        self._least = LEVELS.index(level)
        self._words = words
        self._waiting: queue.Queue[str | threading.Event | None] = queue.Queue(_MOST_WAITING)
        self._lost = 0
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self._thread.start()

    def request(self, exchange: Exchange) -> None:
        """Write the line of a request."""
        if self._words and exchange.method in _FETCHES and exchange.status < 400:
            return
        bad = exchange.status >= 500 and exchange.status != 503
        level = "error" if bad else "warning" if exchange.status >= 400 else "info"
        self.line(level, "request", **_fields(exchange))

    def notice(self, text: str) -> None:
        """Write a line of the models; in words without percentages, which would be many."""
        if self._words and _PERCENTAGE.search(text):
            return
        self.line("warning", "notice", message=text)

    def line(self, level: str, event: str, **fields: Any) -> None:
        """Write a line; fields that are None or empty are left out."""
        if LEVELS.index(level) < self._least:
            return
        given = {name: value for name, value in fields.items() if value not in (None, "", [])}
        lost = {"lost_lines": self._lost} if self._lost else {}
        if self._words:
            text = f"{time.strftime('%H:%M:%S')} {in_words(given | lost)}"
        else:
            moment = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            text = json.dumps({"time": moment, "level": level, "event": event, **given, **lost})
        try:
            self._waiting.put_nowait(f"{text}\n")
            self._lost = 0
        except queue.Full:
            self._lost += 1

    def flush(self) -> None:
        """Wait until the lines so far are written, if that takes no longer than a second."""
        written = threading.Event()
        with suppress(queue.Full):
            self._waiting.put(written, timeout=_LAST_LINES_S)
            written.wait(_LAST_LINES_S)

    def close(self) -> None:
        """Write the lines that wait, if that takes no longer than a second."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=_LAST_LINES_S)
        self._thread.join(_LAST_LINES_S)

    def _work(self) -> None:
        while (line := self._waiting.get()) is not None:
            if isinstance(line, threading.Event):
                line.set()
                continue
            with suppress(OSError):  # nobody reads the log any more
                self._write(line)

    @contextmanager
    def of_libraries(self) -> Iterator[None]:
        """Inside, errors of the libraries of the server are lines of this log, without their tracebacks."""
        handler = _Handler(self.line)
        loggers = [logging.getLogger(name) for name in _OTHERS]
        before = [(one.propagate, one.level) for one in loggers]
        for one in loggers:
            one.addHandler(handler)
            one.propagate = False
            one.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for one, (propagate, level) in zip(loggers, before, strict=True):
                one.removeHandler(handler)
                one.propagate = propagate
                one.setLevel(level)


class _Handler(logging.Handler):
    def __init__(self, write: Callable[..., None]) -> None:
        super().__init__(logging.ERROR)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        first = next(iter(str(record.msg).strip().splitlines()), "")
        self._write("error", "library", logger=record.name, message=first, cause=kind)


def _fields(exchange: Exchange) -> dict[str, Any]:
    usage = exchange.usage
    tokens = usage and {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "disk_tokens": usage.disk_tokens or None,
        "completion_tokens": usage.completion_tokens,
        "drafted_tokens": usage.drafted_tokens,
        "queue_ms": _ms(usage.queue_s),
    }
    return {
        "id": exchange.id,
        "method": exchange.method[:20],
        "path": exchange.path[:_PATH_CHARS],
        "status": exchange.status,
        "ms": _ms(exchange.elapsed_s),
        "model": exchange.model,
        "first_token_ms": _ms(exchange.first_token_s),
        **(tokens or {}),
        "finish_reasons": exchange.reasons,
        "client_gone": exchange.gone or None,
        "cause": exchange.cause,
    }


def in_words(fields: Mapping[str, Any]) -> str:
    """Return the fields of a line as words for a terminal.

    >>> reply = {"model": "tiny", "prompt_tokens": 35, "completion_tokens": 128}
    >>> in_words({**reply, "status": 200, "ms": 3400.0})
    'tiny: 35 + 128 tokens in 3.4 s'
    >>> in_words({"method": "GET", "path": "/x", "status": 404, "ms": 1.2})
    'GET /x: status 404 in 0.0 s'
    """
    if message := fields.get("message"):
        return " ".join(str(message).split())
    said = (
        [f"{fields['prompt_tokens']} + {fields['completion_tokens']} tokens"]
        if "prompt_tokens" in fields
        else []
    )
    if fields["status"] >= 400 or not said:
        said.append(f"status {fields['status']}")
    said[-1] += f" in {fields['ms'] / 1000:.1f} s"
    said += [one for one in fields.get("finish_reasons", ()) if one != "stop"]
    said += ["the client is gone"] if fields.get("client_gone") else []
    said += [fields["cause"]] if "cause" in fields else []
    said += [f"{fields['lost_lines']} lines were lost"] if "lost_lines" in fields else []
    name = fields.get("model") or f"{fields['method']} {fields['path']}"
    line = f"{name}: {', '.join(said)}"
    return "".join(char if char.isprintable() else "\ufffd" for char in line)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
