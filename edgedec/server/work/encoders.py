"""The encoders of a server: opened when a request names them, beside the models that reply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Condition, Lock
from typing import TYPE_CHECKING, TypeVar

from edgedec.core.errors import MemoryBudgetError
from edgedec.embed.encoder import Encoder, load_encoder
from edgedec.server.work.request import BusyError, ClosingError

if TYPE_CHECKING:
    from edgedec.server.work.request import QueueLimits
    from edgedec.server.work.room import ModelRoom

T = TypeVar("T")
_WAIT_S = 2.0
"""Time after which a refused client may ask again."""


class EncoderPool:
    """Encoders by their bundles. Requests to one take turns; of several models as many are open as ``limits``
    allow, and in ``room``, where there is a budget, what the others leave.
    """

    def __init__(
        self, limits: QueueLimits, room: ModelRoom | None, threads: int | None, home: Path | None
    ) -> None:
        self._limits, self._room = limits, room
        self._threads, self._home = threads, home
        self._open: dict[Path, Encoder] = {}
        self._turn = Lock()
        """Held by the one request that computes, or opens."""
        self._changed = Condition()
        self._waiting = 0
        self._closing = False

    def ask(self, bundle: Path, question: Callable[[Encoder], T]) -> T:
        """Return what ``question`` makes of an encoder, which is opened first if need be.

        Raises BusyError where too many wait, ClosingError after ``close``, and the errors of
        ``load_encoder``.
        """
        with self._changed:
            if self._closing:
                raise ClosingError("the server is shutting down")
            if self._waiting > self._limits.waiting:
                words = f"{self._waiting} requests are waiting, and no more can"
                raise BusyError(words, retry_after_s=_WAIT_S)
            self._waiting += 1
        try:
            with self._turn:
                return question(self._opened(bundle))
        finally:
            with self._changed:
                self._waiting -= 1

    def loaded(self) -> dict[str, Encoder]:
        """Return the encoders that are open, by the names of their bundles."""
        return {bundle.name: encoder for bundle, encoder in self._open.copy().items()}

    def close(self) -> None:
        """Take no more requests, and let go of the encoders once the one that computes has ended."""
        with self._changed:
            self._closing = True
        with self._turn:
            for bundle in [*self._open]:
                self._drop(bundle)

    def _opened(self, bundle: Path) -> Encoder:
        found = self._open.pop(bundle, None)
        if found is None:
            while len(self._open) >= self._limits.models:
                self._drop(next(iter(self._open)))
            found = self._loaded(bundle)
            if self._room:
                self._room.set_aside(bundle.name, found.plan.beside_process)
        self._open[bundle] = found  # the last one that was used comes last
        return found

    def _loaded(self, bundle: Path) -> Encoder:
        """Open an encoder; others are closed where it does not fit beside them."""
        while True:
            left = None if self._room is None else self._room.left
            try:
                return load_encoder(bundle, threads=self._threads, memory=left, home=self._home)
            except MemoryBudgetError:
                if not self._open:
                    raise
                self._drop(next(iter(self._open)))

    def _drop(self, bundle: Path) -> None:
        del self._open[bundle]
        if self._room:
            self._room.set_aside(bundle.name, 0)
