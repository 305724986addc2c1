"""One ledger for every byte: each holder leases its part of a budget.

Code that allocates more than a page takes a lease first, and returns it when the memory is free: caches,
buffers of a pass, whole rows of logits, tables of drafters. Within a budget every name has a share, so that
nothing takes memory planned for something else. Small allocations of Python and libraries have a share too,
which is never leased in full. ONNX Runtime's memory for passes is leased at once, by the formula for the
longest pass.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from collections.abc import Mapping

from edgedec.core.errors import MemoryBudgetError, Remedy
from edgedec.core.units import size, size_up

SLACK = "slack"
"""Share of small allocations that nobody leases."""


class Lease:
    """``nbytes`` bytes for ``name``, held from ``take`` to ``release``; both may be repeated.

    A context manager holds it inside. A lease that nothing refers to any more is released.
    """

    def __init__(self, ledger: Ledger, name: str, nbytes: int) -> None:
        """Raises ValueError for a negative size."""
        self.held = False
        if nbytes < 0:
            raise ValueError(f"{nbytes} bytes for {name}")
        self.name = name
        self.nbytes = nbytes
        self._ledger = ledger

    def take(self) -> None:
        """Raises MemoryBudgetError, which says how much is missing, when it does not fit."""
        if not self.held:
            self._ledger.taken(self.name, self.nbytes)
            self.held = True

    def release(self) -> None:
        held, self.held = self.held, False
        if held:
            self._ledger.returned(self.name, self.nbytes)

    def grow(self, nbytes: int) -> None:
        """Take at least ``nbytes`` from now on. Raises MemoryBudgetError."""
        if nbytes > self.nbytes:
            if self.held:
                self._ledger.taken(self.name, nbytes - self.nbytes)
            self.nbytes = nbytes
        self.take()

    def shrink(self, nbytes: int) -> None:
        """Hold at most ``nbytes`` from now on."""
        if nbytes < self.nbytes:
            if self.held:
                self._ledger.returned(self.name, self.nbytes - nbytes)
            self.nbytes = nbytes

    def __enter__(self) -> Lease:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


class Ledger:
    """Leases by name, each within its share of ``shares``. None: leases are counted and never refused.

    Thread-safe.
    """

    def __init__(self, shares: Mapping[str, int] | None = None) -> None:
        self.shares = shares
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._most: dict[str, int] = {}
        self._returned: deque[tuple[str, int]] = deque()
        """Booked at the next call: a lease may be collected anywhere, even inside this class."""

    @property
    def limited(self) -> bool:
        """Whether leases may be refused, so that memory in no use should be given back."""
        return self.shares is not None

    def lease(self, name: str, nbytes: int) -> Lease:
        """Return a lease that is not taken yet. Raises ValueError for a negative size."""
        return Lease(self, name, nbytes)

    def hold(self, owner: object, name: str, nbytes: int) -> None:
        """Lease ``nbytes`` as long as ``owner`` exists. Raises MemoryBudgetError."""
        lease = self.lease(name, nbytes)
        lease.take()
        weakref.finalize(owner, lease.release)

    def room(self, name: str) -> int | None:
        """Bytes of a share that are not leased; None: no bound."""
        if self.shares is None:
            return None
        return self.shares.get(name, 0) - self.by_name().get(name, 0)

    def under(self, name: str, shared: tuple[str, ...] = ()) -> Ledger:
        """Return a ledger whose leases are booked here as ``name``.

        Those of ``SLACK`` stay ``SLACK``, and those of ``shared`` keep their names, too.
        """
        return _Under(self, name, (SLACK, *shared))

    def taken(self, name: str, nbytes: int) -> None:
        """See ``Lease.take``."""
        if not self._booked(name, nbytes):
            gc.collect()  # objects that wait to be collected hold leases and memory
            if not self._booked(name, nbytes):
                raise self._no_room(name, nbytes)

    def returned(self, name: str, nbytes: int) -> None:
        """See ``Lease.release``."""
        self._returned.append((name, nbytes))

    def reshare(self, shares: Mapping[str, int]) -> None:
        """Replace the shares; what is leased stays leased."""
        self.shares = shares

    def by_name(self) -> dict[str, int]:
        """Bytes leased now."""
        with self._lock:
            self._settle()
            return {name: held for name, held in self._held.items() if held}

    def most(self) -> dict[str, int]:
        """The most bytes that each name had leased at once."""
        with self._lock:
            return dict(self._most)

    def _booked(self, name: str, nbytes: int) -> bool:
        with self._lock:
            self._settle()
            held = self._held.get(name, 0) + nbytes
            if self.shares is not None and held > self.shares.get(name, 0):
                return False
            self._held[name] = held
            if held > self._most.get(name, 0):
                self._most[name] = held
            return True

    def _settle(self) -> None:
        while self._returned:
            name, nbytes = self._returned.popleft()
            self._held[name] -= nbytes

    def _no_room(self, name: str, nbytes: int) -> MemoryBudgetError:
        shares, held = self.shares or {}, self.by_name().get(name, 0)
        share, budget = shares.get(name, 0), sum(shares.values())
        enough = budget + held + nbytes - share
        return MemoryBudgetError(
            f"no memory for {name}: it takes {size(nbytes)} more, and {size(share - held)} of the "
            f"{size(share)} planned for it are left",
            hint=f"allow at least {size_up(enough)}",
            remedy=Remedy("memory", enough),
        )


class _Under(Ledger):
    def __init__(self, above: Ledger, name: str, shared: tuple[str, ...]) -> None:
        super().__init__()
        self._shared = shared
        self._above = above
        self._name = name

    @property
    def limited(self) -> bool:
        return self._above.limited

    def room(self, name: str) -> int | None:
        """See ``Ledger.room``; none beside what was planned where there is a bound."""
        return 0 if self.limited else None

    def taken(self, name: str, nbytes: int) -> None:
        self._above.taken(name if name in self._shared else self._name, nbytes)

    def returned(self, name: str, nbytes: int) -> None:
        self._above.returned(name if name in self._shared else self._name, nbytes)
