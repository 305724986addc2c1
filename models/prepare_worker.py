"""Pull or export one model for another process: ``python -P -m edgedec.models.prepare_worker ORDER``.

See ``edgedec.models.prepare_process`` for the order and the answers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from edgedec.models.prepare_process import Order, described
from edgedec.models.store import Store
from edgedec.system.process import terminate

_EVERY_S = 0.1
"""Least time between two messages about the same stage."""


class Speaker:
    """Writes messages to the process that asked, one JSON object a line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stage = ""
        self._next = 0.0

    def say(self, **message: Any) -> None:
        """Write a message at once."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]

    def notice(self, line: str) -> None:
        """Pass a line for the user on; a Notice."""
        self.say(notice=line)

    def progress(self, stage: str, done: int, total: int) -> None:
        """Pass progress on, at most every 0.1 s for one stage; a Progress."""
        now = time.monotonic()
        if stage != self._stage or now >= self._next or done == total:
            self._stage, self._next = stage, now + _EVERY_S
            self.say(progress=[stage, done, total])


def main(order: Order) -> None:
    """Carry out ``order``; the last message is its bundle or its error."""
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    speaker = Speaker(os.dup(1))
    os.dup2(2, 1)  # a library that prints must not speak in between
    try:
        store = Store(Path(order.home), notice=speaker.notice)
        bundle = store.pull(
            order.reference,
            force=order.force,
            keep_source=order.keep_source,
            source=None if order.source is None else Path(order.source),
            progress=speaker.progress,
        )
    except Exception as error:  # whatever it is, the other process reports it
        if os.environ.get("EDGEDEC_DEBUG"):
            traceback.print_exc()
        last: dict[str, Any] = {"error": described(error)}
    else:
        last = {"bundle": str(bundle)}
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the last message may make its reader end this process
    speaker.say(**last)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _end_with_the_parent() -> None:
    while os.read(0, 1):
        pass
    terminate()


if __name__ == "__main__":
    main(Order(**json.loads(sys.argv[1])))
