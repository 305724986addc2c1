"""One ledger for every byte: who holds how much of a budget."""

from __future__ import annotations

from dataclasses import dataclass

from edgedec.core.errors import MemoryBudgetError
from edgedec.core.units import size


@dataclass(slots=True)
class Lease:
    """``nbytes`` bytes for ``name``; give them back once, with ``release``."""

    name: str
    nbytes: int
    _ledger: Ledger | None

    def release(self) -> None:
        """Raises ValueError when it was given back before."""
        if self._ledger is None:
            raise ValueError(f"the lease of {self.name} was given back before")
        ledger, self._ledger = self._ledger, None
        ledger.returned(self)


class Ledger:
    """Leases against ``limit`` bytes; their sum never exceeds it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._leases: list[Lease] = []

    @property
    def leased(self) -> int:
        return sum(lease.nbytes for lease in self._leases)

    @property
    def free(self) -> int:
        return self.limit - self.leased

    def lease(self, name: str, nbytes: int) -> Lease:
        """Raises MemoryBudgetError, which says what is missing, when it does not fit."""
        if nbytes < 0:
            raise ValueError(f"{nbytes} bytes for {name}")
        if nbytes > self.free:
            left = f"{size(self.free)} of {size(self.limit)} are left"
            raise MemoryBudgetError(
                f"no memory for {name}: it takes {size(nbytes)}, and {left}",
                hint=f"use --memory {-(-(self.leased + nbytes) // 1_000_000)}MB or more",
            )
        lease = Lease(name, nbytes, self)
        self._leases.append(lease)
        return lease

    def returned(self, lease: Lease) -> None:
        """``lease`` holds nothing any more."""
        self._leases = [other for other in self._leases if other is not lease]

    def by_name(self) -> dict[str, int]:
        """Bytes leased, by who holds them."""
        held: dict[str, int] = {}
        for lease in self._leases:
            held[lease.name] = held.get(lease.name, 0) + lease.nbytes
        return held
