"""Fetch a model for a client, who sees how far it is; it ends with the client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json
from starlette.responses import Response, StreamingResponse

from edgedec.server.http.answers import json_answer
from edgedec.server.http.faults import noted
from edgedec.server.wire.ollama.pulling import DONE, step
from edgedec.server.wire.reply_form import LINES

if TYPE_CHECKING:
    from edgedec.core.progress import Progress
    from edgedec.server.http.exchange import Exchange

_EVERY_S = 0.2
"""Shortest time between two lines of one stage."""


class _GoneError(Exception):
    """The client went away."""


async def pull_answer(
    name: str, pull: Callable[[str, Progress], object], exchange: Exchange, *, stream: bool
) -> Response:
    """Return the answer to a request for ``name``, which ``pull`` fetches."""
    lines = _lines(name, pull, exchange)
    if stream:
        return StreamingResponse((to_json(one) + b"\n" async for one in lines), media_type=LINES.media_type)
    last: dict[str, Any] = {}
    async for one in lines:
        last = one
    return json_answer(last, 500 if "error" in last else 200)


async def _lines(
    name: str, pull: Callable[[str, Progress], object], exchange: Exchange
) -> AsyncIterator[dict[str, Any]]:
    loop, coming, gone = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]](), threading.Event()
    stage_told, told_s = "", 0.0

    def tell(line: dict[str, Any]) -> None:
        if not gone.is_set():
            loop.call_soon_threadsafe(coming.put_nowait, line)

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal stage_told, told_s
        if gone.is_set():
            raise _GoneError
        now = time.monotonic()
        if stage != stage_told or done == total or now - told_s > _EVERY_S:
            stage_told, told_s = stage, now
            tell(step(name, stage, done, total))

    def work() -> None:
        try:
            pull(name, progress)
            tell(DONE)
        except _GoneError:
            return
        except Exception as error:  # whatever it is, the client gets an answer
            tell({"error": noted(error, exchange).message})

    yield {"status": "pulling manifest"}
    threading.Thread(target=work, name=f"pull {name}", daemon=True).start()
    try:
        while True:
            line = await coming.get()
            yield line
            if line is DONE or "error" in line:
                return
    finally:
        gone.set()
