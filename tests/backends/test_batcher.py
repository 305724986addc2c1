"""The rendezvous, with a pass that only counts: nobody waits for ever, whatever the others do."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from edgedec.backends.backend import PassRequest
from edgedec.backends.onnx.batcher import Batcher, _Waiting
from edgedec.core.errors import BackendError, ContextFullError
from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, LAST_ROW, HeadRows

LIMIT_S = 20.0
"""Far more than any of this takes."""


class Counted:
    """Remembers every pass; the answer to a request are its tokens. ``gate``: passes wait for it."""

    def __init__(self, most: int = 64) -> None:
        self.most = most
        self.forwards: tuple[Forward, ...] = ()
        self.passes: list[dict[int, int]] = []
        self.threads: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.running = threading.Event()
        self.fail: Exception | None = None
        self.repeatable = True
        self.broken: set[int] = set()
        """Sequences that fail every pass."""
        self.well = 0
        """Passes that go well before they fail."""

    def check(self, request: PassRequest) -> None:
        if request.tokens[0] < 0:
            raise ContextFullError("full")

    def run(self, requests: Sequence[PassRequest]) -> list[HeadRows]:
        self.running.set()
        assert self.gate.wait(LIMIT_S)
        self.threads.append(threading.current_thread().name)
        self.passes.append({request.sequence: len(request.tokens) for request in requests})
        if self.fail and len(self.passes) > self.well:
            raise self.fail
        if any(request.sequence in self.broken for request in requests):
            raise BackendError("an expert is damaged")
        return [_rows(request.tokens) for request in requests]


def _rows(tokens: Sequence[int]) -> HeadRows:
    ids = np.array(tokens, np.int32)[:, None]
    nothing = np.zeros(len(tokens), np.float32)
    return HeadRows(ids.astype(np.float32), ids, nothing, nothing)


@pytest.fixture
def combined() -> Counted:
    return Counted()


@pytest.fixture
def batcher(combined: Counted) -> Iterator[Batcher]:
    with Batcher(lambda submit: combined) as made:
        yield made


Act = Callable[[], object]


def at_once(*acts: Act) -> list[Future[object]]:
    """All of them in threads of their own, ended."""
    with ThreadPoolExecutor(len(acts)) as pool:
        futures = [pool.submit(act) for act in acts]
        for future in futures:
            future.exception(LIMIT_S)
    return futures


def talk(
    batcher: Batcher, sequence: int, rounds: int, tokens: int = 1, barrier: threading.Barrier | None = None
) -> Act:
    """``rounds`` passes over ``tokens`` tokens each, whose answers must be one's own."""

    def act() -> None:
        with batcher.reply(sequence):
            if barrier:
                barrier.wait(LIMIT_S)
            for turn in range(rounds):
                asked = [100 * sequence + turn] * tokens
                assert batcher.submit(PassRequest(sequence, asked, rows=ALL_ROWS)).ids[:, 0].tolist() == asked

    return act


def test_those_in_a_reply_share_every_pass(batcher: Batcher, combined: Counted) -> None:
    barrier = threading.Barrier(4)
    futures = at_once(*(talk(batcher, sequence, 20, barrier=barrier) for sequence in range(4)))
    assert [future.exception() for future in futures] == [None] * 4
    assert combined.passes == [dict.fromkeys(range(4), 1)] * 20


def test_a_fault_of_one_ends_nobody_elses_reply(batcher: Batcher, combined: Counted) -> None:
    combined.broken = {1}
    barrier = threading.Barrier(3)
    futures = at_once(*(talk(batcher, number, 5, barrier=barrier) for number in range(3)))
    errors = [future.exception() for future in futures]
    assert (errors[0], errors[2]) == (None, None)
    assert str(errors[1]) == "an expert is damaged"
    assert combined.passes[0] == dict.fromkeys(range(3), 1)
    assert sorted(map(str, combined.passes[1:4])) == ["{0: 1}", "{1: 1}", "{2: 1}"]
    assert [one.keys() for one in combined.passes[4:]] == [{0, 2}] * 4


def test_a_fault_in_a_pass_that_cannot_be_repeated_is_everyones(batcher: Batcher, combined: Counted) -> None:
    combined.broken, combined.repeatable = {1}, False
    barrier = threading.Barrier(2)
    futures = at_once(*(talk(batcher, number, 5, barrier=barrier) for number in range(2)))
    assert {str(future.exception()) for future in futures} == {"an expert is damaged"}
    assert combined.passes == [dict.fromkeys(range(2), 1)]


def test_whoever_ends_is_not_waited_for(batcher: Batcher, combined: Counted) -> None:
    barrier = threading.Barrier(3)
    futures = at_once(*(talk(batcher, number, 5 * (number + 1), barrier=barrier) for number in range(3)))
    assert [future.exception() for future in futures] == [None] * 3
    assert [len(one) for one in combined.passes] == [3] * 5 + [2] * 5 + [1] * 5


def test_whoever_is_in_no_reply_waits_for_none(batcher: Batcher, combined: Counted) -> None:
    assert batcher.submit(PassRequest(5, [7, 8])).ids[:, 0].tolist() == [7, 8]
    assert combined.passes == [{5: 2}]


def test_short_passes_run_where_the_last_request_came_from(batcher: Batcher, combined: Counted) -> None:
    """Nobody is woken for them. Long passes, and those of the main thread, have a thread of their own."""

    def act(number: int, *sizes: int) -> Act:
        def named() -> None:
            threading.current_thread().name = f"talk {number}"
            for size in sizes:
                talk(batcher, number, 1, size)()

        return named

    at_once(act(0, 1, 16, 17))
    assert combined.threads == ["talk 0", "talk 0", "passes"]
    batcher.submit(PassRequest(0, [1]))
    assert combined.threads.pop() == "passes"
    combined.threads.clear()
    barrier = threading.Barrier(2)

    def both(number: int) -> Act:
        def named() -> None:
            threading.current_thread().name = f"talk {number}"
            with batcher.reply(number):
                barrier.wait(LIMIT_S)
                for _ in range(20):
                    batcher.submit(PassRequest(number, [1] * 8))
                barrier.wait(LIMIT_S)  # or else the other one's last pass is run by the thread
                batcher.submit(PassRequest(number, [1] * 9))

        return named

    at_once(both(0), both(1))
    assert set(combined.threads[:20]) <= {"talk 0", "talk 1"}
    assert combined.threads[20:] == ["passes"]


def test_a_refused_request_concerns_nobody_else(batcher: Batcher, combined: Counted) -> None:
    barrier = threading.Barrier(2)

    def wrong() -> None:
        with batcher.reply(1):
            barrier.wait(LIMIT_S)
            batcher.submit(PassRequest(1, [1]))
            batcher.submit(PassRequest(1, [-1]))

    first, second = at_once(talk(batcher, 0, 6, barrier=barrier), wrong)
    assert first.exception() is None
    assert isinstance(second.exception(), ContextFullError)
    assert [len(one) for one in combined.passes] == [2] + [1] * 5


def test_a_pass_that_always_fails_fails_for_all_in_it_and_no_later_one(
    batcher: Batcher, combined: Counted
) -> None:
    combined.fail = BackendError("broken")
    barrier = threading.Barrier(3)
    futures = at_once(*(talk(batcher, sequence, 2, barrier=barrier) for sequence in range(3)))
    assert all(isinstance(future.exception(), BackendError) for future in futures)
    assert [len(one) for one in combined.passes] == [3, 1, 1, 1]
    combined.fail = None
    assert at_once(talk(batcher, 0, 3))[0].exception() is None


def test_one_who_raises_between_passes_lets_the_others_go_on(batcher: Batcher, combined: Counted) -> None:
    barrier = threading.Barrier(2)

    def raising() -> None:
        with batcher.reply(1):
            barrier.wait(LIMIT_S)
            batcher.submit(PassRequest(1, [1]))
            raise KeyError("own")

    first, second = at_once(talk(batcher, 0, 8, barrier=barrier), raising)
    assert first.exception() is None
    assert isinstance(second.exception(), KeyError)


def test_pieces_of_a_prompt_take_turns_with_the_others() -> None:
    combined = Counted(most=40)
    with Batcher(lambda submit: combined) as batcher:
        barrier = threading.Barrier(3)
        futures = at_once(
            talk(batcher, 0, 6, tokens=40, barrier=barrier),
            talk(batcher, 1, 6, barrier=barrier),
            talk(batcher, 2, 6, barrier=barrier),
        )
    assert [future.exception() for future in futures] == [None] * 3
    assert all(sum(one.values()) <= 40 for one in combined.passes)
    with_prompt = [number for number, one in enumerate(combined.passes) if 0 in one]
    others = [[at for at, one in enumerate(combined.passes) if number in one] for number in (1, 2)]
    for turns in (with_prompt, *others):
        assert max(np.diff(turns), default=0) <= 3, combined.passes
    assert len(combined.passes) <= 18


def test_what_fits_rides_along_with_a_prompt() -> None:
    combined = Counted(most=44)
    with Batcher(lambda submit: combined) as batcher:
        barrier = threading.Barrier(3)
        sizes = (40, 2, 2)
        futures = at_once(*(talk(batcher, sequence, 5, size, barrier) for sequence, size in enumerate(sizes)))
    assert [future.exception() for future in futures] == [None] * 3
    assert all(one == {0: 40, 1: 2, 2: 2} for one in combined.passes)


def prompt(batcher: Batcher, sequence: int, size: int, barrier: threading.Barrier) -> Act:
    """One request of so many tokens, of which only the last one's row is wanted."""

    def act() -> None:
        with batcher.reply(sequence):
            barrier.wait(LIMIT_S)
            rows = batcher.submit(PassRequest(sequence, [*range(size)], rows=LAST_ROW))
            assert rows.ids[-1, 0] == size - 1

    return act


def test_a_prompt_beside_replies_is_read_in_short_pieces(combined: Counted) -> None:
    """Replies have a token in every pass; two prompts take turns; alone a prompt is read at once.

    The first pass over replies has no piece: it shows what they take.
    """
    combined.most = 200
    with Batcher(lambda submit: combined, clock=lambda: 1.0) as batcher:
        barrier = threading.Barrier(4)
        talks = [talk(batcher, number, 40, barrier=barrier) for number in (0, 1)]
        prompts = [prompt(batcher, number, 128, barrier) for number in (2, 3)]
        futures = at_once(*talks, *prompts)
        assert [future.exception() for future in futures] == [None] * 4
        alone = at_once(prompt(batcher, 2, 128, threading.Barrier(1)))
    assert alone[0].exception() is None
    assert combined.passes.pop() == {2: 128}
    with_prompts = [one for one in combined.passes if 2 in one or 3 in one]
    first = 3 in with_prompts[0]
    assert with_prompts == [{0: 1, 1: 1, 2 + (first + turn) % 2: 8} for turn in range(32)]
    replies = [one for one in combined.passes if one not in with_prompts]
    assert replies == [combined.passes[0], *combined.passes[33:]] == [{0: 1, 1: 1}] * 8


def test_a_prompt_beside_replies_that_do_not_stream_is_read_at_once(combined: Counted) -> None:
    combined.most = 200
    with Batcher(lambda submit: combined) as batcher:
        barrier = threading.Barrier(2)

        def unread() -> None:
            with batcher.reply(0, streams=False):
                barrier.wait(LIMIT_S)
                for turn in range(4):
                    batcher.submit(PassRequest(0, [turn]))

        assert [one.exception() for one in at_once(unread, prompt(batcher, 1, 128, barrier))] == [None] * 2
        assert combined.passes == [{0: 1, 1: 128}, {0: 1}, {0: 1}, {0: 1}]
        at_once(talk(batcher, 0, 2, barrier=barrier), prompt(batcher, 1, 128, barrier))
    assert combined.passes[4:6] == [{0: 1}, {0: 1, 1: 8}]


def test_a_pass_that_fails_ends_a_prompt_of_which_pieces_are_left(combined: Counted) -> None:
    combined.fail, combined.well = BackendError("broken"), 1
    with Batcher(lambda submit: combined) as batcher:
        barrier = threading.Barrier(2)
        futures = at_once(prompt(batcher, 0, 128, barrier), talk(batcher, 1, 3, barrier=barrier))
        assert all(isinstance(future.exception(), BackendError) for future in futures)
        assert combined.passes[:2] == [{1: 1}, {0: 8, 1: 1}]
        assert sorted(map(str, combined.passes[2:])) == ["{0: 8}", "{1: 1}"]
        combined.fail = None
        assert at_once(talk(batcher, 0, 3))[0].exception() is None


def test_closing_ends_whoever_waits(combined: Counted) -> None:
    batcher = Batcher(lambda submit: combined)
    inside = threading.Event()

    def waiting() -> None:
        with batcher.reply(0):
            inside.set()
            batcher.submit(PassRequest(0, [1]))

    def absent() -> None:
        with batcher.reply(1):
            assert inside.wait(LIMIT_S)
            batcher.close()

    first, second = at_once(absent, waiting)
    assert first.exception() is None
    # The absent one may have ended first; then the pass was run, or not begun any more.
    assert second.exception() is None or isinstance(second.exception(), BackendError)
    with pytest.raises(BackendError, match="closed"):
        batcher.submit(PassRequest(0, [1]))
    batcher.close()


def test_a_pass_in_progress_is_finished_before_closing(combined: Counted) -> None:
    batcher = Batcher(lambda submit: combined)
    combined.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(batcher.submit, PassRequest(0, [1]))
        assert combined.running.wait(LIMIT_S)
        closing = pool.submit(batcher.close)
        combined.gate.set()
        assert asked.result(LIMIT_S).ids[:, 0].tolist() == [1]
        closing.result(LIMIT_S)


def test_one_reply_at_a_time_in_a_place(batcher: Batcher) -> None:
    with batcher.reply(0), pytest.raises(ValueError, match="in a reply"), batcher.reply(0):
        pass
    with batcher.reply(0):
        assert batcher.submit(PassRequest(0, [3])).ids[0, 0] == 3


def test_observers_see_what_was_in_a_pass(combined: Counted) -> None:
    seen: list[tuple[int, float]] = []
    ticks = iter(range(100))
    with Batcher(
        lambda submit: combined,
        observe=lambda requests, seconds: seen.append((len(requests), seconds)),
        clock=lambda: float(next(ticks)),
    ) as batcher:
        batcher.submit(PassRequest(0, [1, 2]))
    assert seen == [(1, 1.0)]


def test_many_of_unlike_lengths_with_random_ends_and_errors(batcher: Batcher, combined: Counted) -> None:
    combined.most = 12
    rng = np.random.default_rng(3)
    plans = [
        [[int(rng.integers(1, 13)) for _ in range(rng.integers(1, 9))] for _ in range(4)] for _ in range(8)
    ]

    def act(sequence: int) -> Act:
        def replies() -> None:
            for plan in plans[sequence]:
                with batcher.reply(sequence):
                    for size in plan:
                        assert len(batcher.submit(PassRequest(sequence, [1] * size))) == size
                    if sum(plan) % 3 == 0:
                        with pytest.raises(ContextFullError):
                            batcher.submit(PassRequest(sequence, [-1]))

        return replies

    futures = at_once(*(act(sequence) for sequence in range(8)))
    assert [future.exception() for future in futures] == [None] * 8
    for sequence in range(8):
        fed = [one[sequence] for one in combined.passes if sequence in one]
        assert fed == [size for plan in plans[sequence] for size in plan]


def test_rows_are_kept_by_nobody_but_who_asked_for_them(batcher: Batcher) -> None:
    def ids() -> weakref.ref[Any]:
        return weakref.ref(batcher.submit(PassRequest(0, [1])).ids)

    with batcher.reply(0):
        assert ids()() is None, "the thread that ran the pass keeps them"


def test_rows_are_let_go_of_before_the_pass_is_over_for_its_runner(
    combined: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []

    def done(waiting: _Waiting) -> None:
        tokens, found = waiting.request.tokens, weakref.ref(waiting.result().ids)
        kept.append(found())
        waiting.rows = _rows(tokens)
        finished(waiting)

    finished = _Waiting.done
    monkeypatch.setattr(_Waiting, "done", done)
    with Batcher(lambda submit: combined) as batcher:
        barrier = threading.Barrier(2)
        futures = at_once(*(talk(batcher, number, 1, barrier=barrier) for number in range(2)))
    assert [future.exception() for future in futures] == [None, None]
    assert kept == [None, None]


def test_a_failed_pass_keeps_no_rows_while_requests_run_alone(combined: Counted) -> None:
    held: list[weakref.ref[Any]] = []
    run, alive = combined.run, list[bool]()

    def failing(requests: Sequence[PassRequest]) -> list[HeadRows]:
        rows = _rows([len(requests)])
        alive.append(any(one() is not None for one in held))
        held.append(weakref.ref(rows.ids))
        if len(requests) > 1:
            try:
                raise RuntimeError("below")
            except RuntimeError as error:
                raise BackendError("together") from error
        return run(requests)

    combined.run = failing  # type: ignore[method-assign]
    barrier = threading.Barrier(2)
    with Batcher(lambda submit: combined) as batcher:
        futures = at_once(*(talk(batcher, number, 1, barrier=barrier) for number in range(2)))
    assert [future.exception() for future in futures] == [None, None]
    assert alive == [False] * 3
