"""Passes beside the main thread, and Ctrl-C while they wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgedec.backends.onnx.stoppable import Stoppable
from tests.patience import PATIENCE_S


@contextmanager
def interrupts_soon(times: int = 1) -> Iterator[None]:
    """Ctrl-C in a moment, and again."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1 if times > 1 else 0.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Disk:
    """One that answers when it is interrupted, ``late`` seconds after that."""

    def __init__(self, late: float = 0.0) -> None:
        self.said: list[bool] = []
        self.ended = False
        self._late = late
        self._given_up = threading.Event()

    def interrupt(self, now: bool) -> None:
        self.said.append(now)
        if now:
            self._given_up.set()

    def read(self) -> int:
        assert self._given_up.wait(PATIENCE_S)
        threading.Event().wait(self._late)
        self.ended = True
        raise OSError("interrupted")


def test_results_and_errors_are_those_of_the_computation() -> None:
    disk = Disk()
    compute = Stoppable(disk.interrupt)
    names = [compute(lambda: threading.current_thread().name) for _ in range(3)]
    assert len(set(names)) == 1
    assert names[0] != threading.main_thread().name
    with pytest.raises(ZeroDivisionError):
        compute(lambda: 1 // 0)
    assert disk.said == []


def test_other_threads_compute_themselves() -> None:
    compute, names = Stoppable(Disk().interrupt), list[str]()
    thread = threading.Thread(target=lambda: names.append(compute(lambda: threading.current_thread().name)))
    thread.start()
    thread.join(PATIENCE_S)
    assert names == [thread.name]


@pytest.mark.parametrize(("times", "late"), [(1, 0.0), (3, 0.5)])
def test_an_interrupt_ends_the_computation_before_it_goes_on(times: int, late: float) -> None:
    """Also while the computation takes its time to end, and Ctrl-C comes again."""
    disk = Disk(late)
    compute = Stoppable(disk.interrupt)
    with pytest.raises(KeyboardInterrupt), interrupts_soon(times):
        compute(disk.read)
    assert disk.ended
    assert disk.said == [True, False]
    assert compute(lambda: 5) == 5
