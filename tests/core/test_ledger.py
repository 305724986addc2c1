"""The ledger: no name has more than its share, and what is free again can be leased again."""

from __future__ import annotations

import threading

import pytest

from edgedec.core.errors import MemoryBudgetError
from edgedec.core.ledger import Ledger


class Owner:
    """Something that has memory."""


def test_no_name_gets_more_than_its_share() -> None:
    ledger = Ledger({"cache": 60, "rows": 40})
    cache = ledger.lease("cache", 50)
    cache.take()
    with ledger.lease("rows", 40):
        assert ledger.by_name() == {"cache": 50, "rows": 40}
        with pytest.raises(
            MemoryBudgetError, match=r"no memory for rows: it takes 1 B more, and 0 B of the 40 B .* are left"
        ):
            ledger.lease("rows", 1).take()
    with pytest.raises(MemoryBudgetError, match="it takes 11 B more, and 10 B of the 60 B planned"):
        ledger.lease("cache", 11).take()
    with pytest.raises(MemoryBudgetError, match=r"no memory for tables: .* 0 B of the 0 B planned"):
        ledger.lease("tables", 1).take()
    assert ledger.by_name() == {"cache": 50}
    assert ledger.most() == {"cache": 50, "rows": 40}


def test_a_lease_is_taken_and_given_back_once() -> None:
    ledger = Ledger({"cache": 60})
    lease = ledger.lease("cache", 40)
    for _ in range(2):
        lease.take()
        assert ledger.by_name() == {"cache": 40}
    for _ in range(2):
        lease.release()
        assert ledger.by_name() == {}
    lease.grow(50)
    lease.grow(45)
    assert ledger.by_name() == {"cache": 50}
    with pytest.raises(MemoryBudgetError):
        lease.grow(61)
    assert ledger.by_name() == {"cache": 50}
    del lease
    assert ledger.by_name() == {}
    with pytest.raises(ValueError, match="-1 bytes"):
        ledger.lease("cache", -1)


def test_what_an_owner_holds_goes_with_it() -> None:
    ledger = Ledger({"tables": 10})
    for _ in range(3):
        owner = Owner()
        ledger.hold(owner, "tables", 10)
        assert ledger.by_name() == {"tables": 10}
        del owner
    assert ledger.by_name() == {}


def test_a_drafter_leases_all_under_its_name() -> None:
    ledger = Ledger({"drafter": 30, "slack": 5})
    drafter = ledger.under("drafter")
    cache, rows = drafter.lease("cache", 20), drafter.lease("rows", 11)
    cache.take()
    with pytest.raises(MemoryBudgetError, match="no memory for drafter"):
        rows.take()
    cache.release()
    rows.take()
    with drafter.lease("slack", 5):
        assert ledger.by_name() == {"drafter": 11, "slack": 5}


def test_without_shares_all_is_counted_and_nothing_refused() -> None:
    ledger = Ledger()
    with ledger.lease("cache", 1 << 60), ledger.lease("cache", 1):
        assert ledger.by_name() == {"cache": (1 << 60) + 1}
    assert ledger.most() == {"cache": (1 << 60) + 1}


def test_threads_lose_nothing() -> None:
    ledger = Ledger()

    def work() -> None:
        for _ in range(2000):
            with ledger.lease("rows", 3):
                ledger.hold(Owner(), "rows", 5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.by_name() == {}
    assert 8 <= ledger.most()["rows"] <= 4 * 8
