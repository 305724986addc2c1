"""A base class for forwards: the facts of the model and the bookkeeping of the cache, without any part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.checks import check_keep
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Attending, Capabilities, Copying, Evicting, Peeking, Portable
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import Keep, Rows
from edgedec.memory import CacheBook


class CacheForward:
    """The bookkeeping part of ``Forward``.

    ``book`` records which slots are taken. A subclass adds ``extend``, ``keep_path`` and ``nbytes``, and the
    parts that it has.
    """

    def __init__(
        self, spec: ModelSpec, caps: Capabilities, book: CacheBook, ledger: Ledger | None = None
    ) -> None:
        self._spec = spec
        self._caps = caps
        self._book = book
        self._ledger: Ledger = Ledger() if ledger is None else ledger
        self._kept: Keep | None = None

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def caps(self) -> Capabilities:
        return self._caps

    @property
    def ledger(self) -> Ledger:
        """See ``Forward.ledger``."""
        return self._ledger

    @property
    def capacity(self) -> int:
        """Most tokens that the cache holds."""
        return self._book.capacity

    @property
    def length(self) -> int:
        """See ``Forward.length``."""
        return self._book.length

    def reachable(self, length: int) -> int:
        """See ``Forward.reachable``."""
        return self._book.reachable(length)

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        self._book.rewind(length)

    @property
    def peeking(self) -> Peeking | None:
        return None

    @property
    def evicting(self) -> Evicting | None:
        return None

    @property
    def attending(self) -> Attending | None:
        return None

    @property
    def portable(self) -> Portable | None:
        return None

    @property
    def copying(self) -> Copying | None:
        return None

    @property
    def lent(self) -> Mapping[str, NDArray[np.float16]] | None:
        return None

    def _check_rows(self, rows: Rows) -> None:
        """Raises UnsupportedError for rows that the capabilities lack, ValueError for wrong ids to keep."""
        if rows.taps:
            if not self._caps.taps:
                self._refuse("it hands out no hidden states")
            if not set(rows.taps) <= set(self._caps.taps):
                raise ValueError(f"hidden states of layers {rows.taps}: there are {self._caps.taps}")
        if rows.keep is None or rows.keep is self._kept:
            return
        if not self._caps.trims:
            self._refuse("its head cannot be trimmed")
        check_keep(rows.keep, self._spec.vocab_size)
        self._kept = rows.keep

    def _refuse(self, why: str) -> NoReturn:
        raise UnsupportedError(f"{self._spec.name}: {why}")
