"""Leases of memory, as a ``Forward`` and its callers see them; ``memory.ledger`` implements them."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol


class LeaseLike(Protocol):
    """Bytes held from ``take`` to ``release``; as a context manager, held inside."""

    def take(self) -> None:
        """Raises MemoryBudgetError when the bytes do not fit."""
        ...

    def release(self) -> None: ...

    def grow(self, nbytes: int) -> None:
        """Take at least ``nbytes`` from now on. Raises MemoryBudgetError."""
        ...

    def __enter__(self) -> LeaseLike: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class LedgerLike(Protocol):
    """Books leases by name."""

    def lease(self, name: str, nbytes: int) -> LeaseLike:
        """Return a lease that is not yet taken. Raises ValueError for a negative size."""
        ...

    def hold(self, owner: object, name: str, nbytes: int) -> None:
        """Lease ``nbytes`` as long as ``owner`` exists. Raises MemoryBudgetError."""
        ...
