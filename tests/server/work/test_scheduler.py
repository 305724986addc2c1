"""Requests to one model: each has the reply that it would have alone, and all of them end."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from edgedec.backends.backend import PassRequest
from edgedec.core.errors import BackendError, ContextFullError, EdgeDecError, NotFoundError, UsageError
from edgedec.models import Store
from edgedec.sampling.named import SamplingParams
from edgedec.server.work.hub import Hub
from edgedec.server.work.request import (
    BusyError,
    ClosingError,
    Ended,
    GenerationRequest,
    Piece,
    QueueLimits,
    TimeLimitError,
)
from edgedec.server.work.scheduler import Scheduler
from edgedec.session.prompt import Message
from tests.patience import PATIENCE_S
from tests.server.work.hubs import PLAIN, Alone, gathered, hub_of, only, same, store_of, user

LONG = "The cat sat on the mat, and the dog sat on the cat. " * 3
SYSTEM = Message("system", "You are brief, and you never speak of cats, dogs or other animals at all.")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return store_of(tmp_path_factory.mktemp("server"), tiny="llama", windowed="gemma3")


@pytest.fixture(scope="module")
def alone(store: Store) -> Iterator[Alone]:
    found = Alone(store)
    with found.model:
        yield found


@pytest.fixture
def hub(store: Store) -> Iterator[Hub]:
    before = threading.active_count()
    hub = hub_of(store)
    yield hub
    hub.close()
    assert threading.active_count() <= before  # a thread that releases code may have ended meanwhile


def scheduler_of(hub: Hub, name: str = "tiny") -> Scheduler:
    hub.load(name)
    found = hub._loading.entries[name].scheduler
    assert found is not None
    return found


def warm(said: str, seed: int = 0, **rest: object) -> GenerationRequest:
    sampling = SamplingParams(temperature=0.8, seed=seed)
    return GenerationRequest(**{"messages": user(said), "sampling": sampling, "max_tokens": 20, **rest})  # type: ignore[arg-type]


def test_a_reply_is_the_one_alone(hub: Hub, alone: Alone) -> None:
    for request in (
        warm("Hello"),
        warm("Hello", messages=(), text="Once upon a time"),
        warm("Hello", stop=("a",), max_tokens=60),
        warm("Hello", sampling=SamplingParams(temperature=1.0, top_p=0.9, repetition_penalty=1.2, seed=7)),
        warm("Hello", max_tokens=None),
    ):
        same(only(hub.submit(request)), alone.reply(request))


def test_logprobs_are_those_alone(hub: Hub, alone: Alone) -> None:
    request = warm("Hello", messages=(), text="Once upon a time", logprobs=2)
    expected = alone.reply(request)
    got = only(hub.submit(request))
    assert [token.logprob for token in got.tokens] == expected.logprobs[: len(got.tokens)]
    bare = only(hub.submit(replace(request, logprobs=0)))
    assert [token.logprob and replace(token.logprob, top=()) for token in got.tokens] == [
        token.logprob for token in bare.tokens
    ]
    assert got.text.startswith("".join(token.text for token in got.tokens))


def test_a_second_turn_finds_the_first_one_cached(hub: Hub, alone: Alone) -> None:
    first = warm(LONG)
    got = only(hub.submit(first))
    assert got.usage.cached_tokens == 0
    other = only(hub.submit(warm("Something else")))
    assert other.usage.cached_tokens < 8
    again = replace(first, messages=(*first.messages, Message("assistant", got.text), *user("And then?")))
    second = only(hub.submit(again))
    same(second, alone.reply(again))
    assert second.usage.cached_tokens >= got.usage.prompt_tokens
    assert second.usage.prompt_tokens > second.usage.cached_tokens
    status = hub.status()
    assert status.cached_tokens == other.usage.cached_tokens + second.usage.cached_tokens
    assert status.completion_tokens == sum(one.usage.completion_tokens for one in (got, other, second))


def test_joules_of_passes_that_are_shared_are_shared(hub: Hub) -> None:
    request = warm("Hello", max_tokens=40)
    cold, single = only(hub.submit(request)).usage, only(hub.submit(request)).usage
    assert cold.joules is not None
    assert single.joules is not None
    assert 0.0 < single.joules < cold.joules, "a prompt in the cache costs nothing"
    slow(scheduler_of(hub), 0.01)
    together = [only(ticket).usage for ticket in [hub.submit(request) for _ in range(3)]]
    assert sum(one.joules or 0.0 for one in together) < 2 * single.joules
    assert all(one.passes == single.passes for one in together)


def test_a_shared_beginning_is_copied_and_stays_where_it_was(hub: Hub, alone: Alone) -> None:
    talk = warm("", messages=(SYSTEM, *user(LONG)), max_tokens=40)
    got = only(hub.submit(talk))
    other = warm("", messages=(SYSTEM, *user("Hello")))
    second = only(hub.submit(other))
    same(second, alone.reply(other))
    assert second.usage.cached_tokens > 16
    again = replace(talk, messages=(*talk.messages, Message("assistant", got.text), *user("And then?")))
    third = only(hub.submit(again))
    same(third, alone.reply(again))
    assert third.usage.cached_tokens >= got.usage.prompt_tokens


@pytest.mark.parametrize("name", ["tiny", "windowed"])
@pytest.mark.parametrize("samples", [2, 3, 5])
def test_samples_have_seeds_of_their_own_and_one_prompt(store: Store, name: str, samples: int) -> None:
    alone, hub = Alone(store, name), hub_of(store, name)
    request = warm(LONG, seed=3, samples=samples)
    got = gathered(hub.submit(request))
    assert sorted(got) == [*range(samples)]
    with alone.model:
        for sample, one in got.items():
            same(one, alone.reply(request, sample))
    assert len({one.text for one in got.values()}) == samples
    computed = [one.usage.prompt_tokens - one.usage.cached_tokens for one in got.values()]
    assert computed[0] > 50
    if name == "tiny":
        assert max(computed[1:]) == 1
    hub.close()


def test_a_reply_goes_on_from_an_assistant_message(hub: Hub, alone: Alone) -> None:
    """The prompt is that of the reply, and the text behind it."""
    whole = only(hub.submit(warm("Hello", max_tokens=30)))
    text = "So it was,"
    messages = (*user("Hello"), Message("assistant", text))
    request = warm("", messages=messages, continues=True)
    got = only(hub.submit(request))
    chat = alone.model.chat(messages=user("Hello"))
    prompt = chat.prompts.build(chat.messages).text + text
    expected = alone.model.loaded.tokenizer.encode(text, add_bos=False)
    assert got.usage.prompt_tokens == whole.usage.prompt_tokens + len(expected)
    assert got.text
    assert prompt.endswith(text)
    empty = replace(request, messages=(*user("Hello"), Message("assistant", "")), max_tokens=30)
    assert only(hub.submit(empty)).ids == whole.ids
    with pytest.raises(UsageError, match="nothing before"):
        only(hub.submit(replace(request, messages=messages[1:])))
    with pytest.raises(UsageError, match="no reply to continue"):
        warm("Hello", continues=True)


def test_a_prompt_that_does_not_fit_fails_and_nobody_else(hub: Hub, alone: Alone) -> None:
    good = [warm(f"Hello {number}") for number in range(4)]
    tickets = [hub.submit(request) for request in good]
    bad = hub.submit(warm("word " * 800))
    more = hub.submit(good[0])
    with pytest.raises(ContextFullError):
        only(bad)
    for ticket, request in zip([*tickets, more], [*good, good[0]], strict=True):
        same(only(ticket), alone.reply(request))
    assert hub.status().failed == 1


def test_cancelling_ends_a_reply_and_frees_the_slot(hub: Hub, alone: Alone) -> None:
    running = [hub.submit(warm(f"Hello {number}", max_tokens=150)) for number in range(3)]
    waiting = hub.submit(warm("Never begun"))
    streams = [iter(ticket) for ticket in running]
    for stream in streams:
        assert isinstance(next(stream), Piece)
    waiting.cancel()
    waiting.cancel()
    assert [only(waiting).reason] == ["interrupted"]
    for ticket, stream in zip(running, streams, strict=True):
        ticket.cancel()
        *_, last = stream
        assert isinstance(last, Ended)
        assert last.reason in ("interrupted", "stop")
    request = warm("And now?")
    same(only(hub.submit(request)), alone.reply(request))
    assert hub.status().cancelled >= 1


def test_a_long_prompt_can_be_cancelled_before_its_first_token(hub: Hub, alone: Alone) -> None:
    scheduler = scheduler_of(hub)
    slow(scheduler, 0.1)
    request = warm(LONG * 2)
    ticket = hub.submit(request)
    engine, waited = scheduler.slots[0].engine, time.monotonic() + PATIENCE_S
    while not engine.home.forward.length and time.monotonic() < waited:
        time.sleep(0.001)
    ticket.cancel()
    got = only(ticket)
    assert (got.reason, got.ids, got.usage.passes) == ("interrupted", [], 0)
    again = only(hub.submit(request))
    same(again, alone.reply(request))
    assert 0 < again.usage.cached_tokens < again.usage.prompt_tokens


def ask_until_closed(hub: Hub, seed: int, ends: list[object]) -> None:
    """Send requests one after another, and keep how each ended."""
    chance = random.Random(seed)
    while not ends or not isinstance(ends[-1], EdgeDecError):
        name = "tiny" if chance.random() < 0.8 else "windowed"
        request = warm(f"Hello {seed}", model=name, samples=chance.choice((1, 2)), max_tokens=30)
        try:
            ends += [one.reason for one in gathered(hub.submit(request)).values()]
        except EdgeDecError as error:
            ends.append(error)


def test_closing_in_the_midst_of_a_load_ends_everything(store: Store) -> None:
    """Every ticket ends, by its end or by an error, and no thread stays."""
    before = threading.active_count()
    for seed in range(4):
        chance = random.Random(seed)
        hub = hub_of(store, limits=QueueLimits(models=1))
        ends: list[list[object]] = [[] for _ in range(5)]
        threads = [
            threading.Thread(target=ask_until_closed, args=(hub, 10 * seed + at, ends[at])) for at in range(5)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.2 + chance.random())
        hub.close(finish_s=chance.choice((0.0, 0.1)))
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert all(isinstance(one[-1], ClosingError) for one in ends)
    assert threading.active_count() == before


def test_requests_beyond_the_queue_are_refused_with_a_time(store: Store) -> None:
    hub = hub_of(store, limits=QueueLimits(waiting=2))
    only(hub.submit(warm("Hello")))
    tickets, refused = [], []
    for number in range(20):
        try:
            tickets.append(hub.submit(warm(f"Hello {number}", max_tokens=100)))
        except BusyError as error:
            refused.append(error)
    assert len(tickets) >= 5
    assert refused
    assert all(1.0 <= error.retry_after_s <= 600.0 for error in refused)
    assert hub.status().refused == len(refused)
    for ticket in tickets:
        only(ticket)
    hub.close()


def test_a_request_may_take_so_long_and_no_longer(store: Store) -> None:
    hub = hub_of(store, config=replace(PLAIN, conversations=1), limits=QueueLimits(request_s=1.0))
    scheduler = scheduler_of(hub)
    slow(scheduler, 0.1)
    first, second = hub.submit(warm("Hello", max_tokens=200)), hub.submit(warm("Hello you"))
    began = time.monotonic()
    assert only(first).reason == "interrupted"
    with pytest.raises(TimeLimitError):
        only(second)
    assert 0.5 < time.monotonic() - began < PATIENCE_S
    hub.close()


def slow(scheduler: Scheduler, seconds: float) -> None:
    """Let each pass take longer."""
    for forward in scheduler.model.runner.sequences.forwards:

        def slowly(tokens: object, *, extend: Any = forward.extend, **how: object) -> object:
            time.sleep(seconds)
            return extend(tokens, **how)

        forward.extend = slowly  # type: ignore[method-assign, assignment]


def test_a_server_limits_prompts_replies_and_samples(store: Store) -> None:
    hub = hub_of(store, limits=QueueLimits(prompt_tokens=60, reply_tokens=7, samples=2))
    got = only(hub.submit(warm("Hello", max_tokens=None)))
    assert (got.reason, got.usage.completion_tokens) in {("length", 7), ("stop", got.usage.completion_tokens)}
    assert only(hub.submit(warm("Hello", max_tokens=100))).usage.completion_tokens <= 7
    with pytest.raises(ContextFullError, match="this server reads 60"):
        only(hub.submit(warm(LONG)))
    with pytest.raises(UsageError, match="1 to 2"):
        hub.submit(warm("Hello", samples=3))
    hub.close()


def test_names_that_are_not_installed(hub: Hub, store: Store) -> None:
    with pytest.raises(NotFoundError):
        hub.submit(warm("Hello", model="nobody"))
    with pytest.raises(NotFoundError, match="not installed"):
        hub.submit(warm("Hello", model="smollm2-135m"))
    with pytest.raises(NotFoundError):
        hub_of(store, "nobody")
    with pytest.raises(UsageError, match="either messages or a text"):
        GenerationRequest()


def test_in_an_event_loop_a_slow_reader_stops_nobody(hub: Hub, alone: Alone) -> None:
    requests = [warm(f"Hello {number}") for number in range(5)]

    async def read(request: GenerationRequest, wait_s: float) -> list[int]:
        found: list[int] = []
        async for event in hub.submit(request):
            await asyncio.sleep(wait_s)
            if isinstance(event, Piece):
                found += [token.id for token in event.tokens]
        return found

    async def every() -> list[list[int]]:
        return await asyncio.gather(*(read(one, 0.02 * at) for at, one in enumerate(requests)))

    assert asyncio.run(every()) == [alone.reply(one).text_tokens for one in requests]


def test_an_abandoned_iteration_cancels(hub: Hub) -> None:
    ticket = hub.submit(warm("Hello", max_tokens=200))

    async def leave() -> None:
        events = aiter(ticket)
        await anext(events)
        await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert ticket.interrupted


def test_closing_finishes_replies_or_cuts_them(store: Store, alone: Alone) -> None:
    request = warm("Hello", max_tokens=60)
    for finish_s in (PATIENCE_S, 0.0):
        hub = hub_of(store)
        tickets = [hub.submit(request) for _ in range(3)]
        streams = [iter(ticket) for ticket in tickets]
        first = [next(stream) for stream in streams]
        hub.close(finish_s=finish_s)
        with pytest.raises(ClosingError):
            hub.submit(request)
        for event, stream in zip(first, streams, strict=True):
            got = gathered([event, *stream])[0]
            expected = alone.reply(request)
            assert expected.text_tokens[: len(got.ids)] == got.ids
            if finish_s:
                same(got, expected)


def test_requests_that_wait_when_the_server_closes_are_told(store: Store) -> None:
    hub = hub_of(store, config=replace(PLAIN, conversations=1))
    slow(scheduler_of(hub), 0.05)
    tickets = [hub.submit(warm(f"Hello {number}", max_tokens=100)) for number in range(4)]
    next(iter(tickets[0]))
    hub.close()
    for ticket in tickets[1:]:
        with pytest.raises(ClosingError):
            only(ticket)


def test_a_failed_pass_is_said_to_those_in_it_and_the_next_request_is_right(
    hub: Hub, alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    combined = scheduler_of(hub).model.runner.sequences._batch._combined  # type: ignore[union-attr]
    run, calls, broken = combined.run, iter(range(10**6)), set[int]()

    def sometimes(requests: Sequence[PassRequest]) -> object:
        """Fail once for all in a pass, together and each alone; a pass of one is not tried again."""
        within = {request.sequence for request in requests}
        if next(calls) == 3:
            broken.update(within if len(within) > 1 else ())
            raise BackendError("broken")
        if len(within) == 1 and within <= broken:
            broken.difference_update(within)
            raise BackendError("broken")
        return run(requests)

    monkeypatch.setattr(combined, "run", sometimes)
    requests = [warm(f"Hello {number}") for number in range(6)]
    tickets = [hub.submit(request) for request in requests]
    failed = 0
    for ticket, request in zip(tickets, requests, strict=True):
        try:
            same(only(ticket), alone.reply(request))
        except BackendError:
            failed += 1
    assert 1 <= failed <= 3
    assert hub.status().failed == failed
    for request in requests:
        same(only(hub.submit(request)), alone.reply(request))


@pytest.mark.parametrize("name", ["tiny", "windowed"])
@pytest.mark.parametrize("draft", ["off", "lookup,recycling"])
def test_random_load(store: Store, name: str, draft: str) -> None:
    """Arrivals, cancels, shared beginnings, samples and failed passes; every reply is the one alone."""
    chance = random.Random(f"{name} {draft}")
    alone = Alone(store, name)
    begins = [(), (SYSTEM,), (SYSTEM, *user(LONG), Message("assistant", "Yes."))]
    texts = ["Hello", "Hello you", LONG, "one two one two", LONG + "Why?"]
    pool = [
        warm("", seed, messages=(*begin, *user(text)), samples=chance.choice((1, 1, 1, 2, 4)))
        for begin in begins
        for text in texts
        for seed in (1, 2)
    ]
    with alone.model:
        expected = {
            (at, sample): alone.reply(request, sample)
            for at, request in enumerate(pool)
            for sample in range(request.samples)
        }
    hub = hub_of(store, name, config=replace(PLAIN, draft=draft), limits=QueueLimits(waiting=100))
    combined = scheduler_of(hub, name).model.runner.sequences._batch._combined  # type: ignore[union-attr]
    run, broken = combined.run, random.Random(5)

    def sometimes(requests: object) -> object:
        if broken.random() < 0.005:
            raise BackendError("broken")
        return run(requests)

    combined.run = sometimes
    problems: list[BaseException] = []
    done = [0, 0, 0]

    def client(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(8):
                time.sleep(chance.random() * 0.02)
                at = chance.randrange(len(pool))
                ticket = hub.submit(pool[at])
                if chance.random() < 0.2:
                    threading.Timer(chance.random() * 0.05, ticket.cancel).start()
                try:
                    got = gathered(ticket)
                except BackendError:
                    done[2] += 1
                    continue
                assert sorted(got) == [*range(pool[at].samples)]
                for sample, one in got.items():
                    reply = expected[at, sample]
                    if one.reason == "interrupted":
                        done[1] += 1
                        assert one.ids == reply.text_tokens[: len(one.ids)]
                    else:
                        done[0] += 1
                        same(one, reply)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    if problems:
        raise problems[0]
    assert done[0] > 20
    until = time.monotonic() + PATIENCE_S  # a cancelled reply ends its pass first
    while (hub.status().running or hub.status().waiting) and time.monotonic() < until:
        time.sleep(0.01)
    status = hub.status()
    assert (status.running, status.waiting) == (0, 0)
    assert status.cached_tokens > 0
    hub.close()
