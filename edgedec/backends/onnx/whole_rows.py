"""The memory of whole rows of logits: too large to be kept for each shape of passes, or to be copied."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

import numpy as np

from edgedec.core.ledger import Ledger
from edgedec.core.rows import FloatArray


class Borrower(Protocol):
    """Whoever refers to rows that were lent."""

    def forget_whole(self) -> None:
        """Refer to them no more."""
        ...


class WholeRows:
    """Rows of ``width`` logits, leased from ``ledger``: fresh ones, or lent ones in memory that is kept."""

    def __init__(self, ledger: Ledger, width: int) -> None:
        self.ledger, self._width = ledger, width
        self._kept = self._empty(0)
        self._borrowers: WeakSet[Borrower] = WeakSet()
        self._lease = ledger.lease("rows", 0)
        self.lends = not ledger.limited
        """Whether memory may be kept for rows to lend; within a budget others may need it in between."""

    def lent(self, rows: int, borrower: Borrower) -> FloatArray:
        """Return the memory of so many rows, which the next ones overwrite.

        ``borrower`` forgets it where more rows need other memory.
        """
        if rows > len(self._kept):
            for one in self._borrowers:
                one.forget_whole()
            self._borrowers.clear()
            self._kept = self._empty(0)
            self._lease.grow(4 * rows * self._width)
            self._kept = self._empty(rows)
        self._borrowers.add(borrower)
        return self._kept[:rows]

    def fresh(self, rows: int) -> FloatArray:
        """Return memory for so many rows, leased as long as it exists. Raises MemoryBudgetError."""
        found = self._empty(rows)
        self.ledger.hold(found, "rows", found.nbytes)
        return found

    def _empty(self, rows: int) -> FloatArray:
        return np.empty((rows, self._width), dtype=np.float32)
