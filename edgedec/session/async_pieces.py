"""A reply in an event loop: each piece is computed in a worker thread while other tasks run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


async def pieces_of(
    pieces: Generator[str, None, None], interrupt: Callable[[], None], mark: Callable[[bool], None]
) -> AsyncIterator[str]:
    """Yield the pieces of a reply one at a time; ``mark`` whether the next one has been asked for.

    An iteration that ends early, by ``break``, an exception or the end of its task, interrupts the reply and
    waits for the pass in progress. Then another reply may begin.
    """
    loop = asyncio.get_running_loop()
    worker = ThreadPoolExecutor(1, "reply")
    try:
        while True:
            mark(True)
            step = loop.run_in_executor(worker, next, pieces, None)
            try:
                piece = await asyncio.shield(step)
            except asyncio.CancelledError:
                interrupt()
                await _ended(step)
                raise
            finally:
                mark(False)
            if piece is None:
                return
            yield piece
    finally:
        await _ended(loop.run_in_executor(worker, pieces.close))
        worker.shutdown(wait=False)


async def _ended(step: asyncio.Future[Any]) -> None:
    """Wait for a step, also where the task is cancelled again meanwhile; its error has no reader any more."""
    again = False
    while not step.done():
        try:
            await asyncio.wait([step])
        except asyncio.CancelledError:
            again = True
    step.exception()
    if again:
        raise asyncio.CancelledError
