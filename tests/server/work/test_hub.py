"""Models on demand: opened when a request names them, closed for others, never in the middle of a reply."""

from __future__ import annotations

import random
import shutil
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.core.errors import (
    BadFileError,
    ContextFullError,
    EdgeDecError,
    MemoryBudgetError,
    NotFoundError,
    UsageError,
)
from edgedec.core.ledger import SLACK
from edgedec.grammar import GrammarSpec
from edgedec.models import Store
from edgedec.sampling.named import SamplingParams
from edgedec.server.work.hub import Hub
from edgedec.server.work.opener import opener_of
from edgedec.server.work.request import ClosingError, GenerationRequest, Piece, QueueLimits
from edgedec.server.work.room import process_bytes
from edgedec.session.reply import Reply
from tests.fixtures.ready import prepared_of
from tests.patience import PATIENCE_S
from tests.server.work.hubs import PLAIN, Alone, gathered, hub_of, only, same, store_of, user
from tests.session.parrot import load_parrot

NAMES = {"tiny": "llama", "windowed": "gemma3", "other": "qwen3"}
ONE = QueueLimits(models=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return store_of(tmp_path_factory.mktemp("server"), **NAMES)


@pytest.fixture(scope="module")
def expected(store: Store) -> dict[str, Reply]:
    found = {}
    for name in NAMES:
        alone = Alone(store, name)
        with alone.model:
            found[name] = alone.reply(asking(name))
    return found


@pytest.fixture
def hubs(store: Store) -> Iterator[list[Hub]]:
    """Closes what a test puts into it, and looks for threads that stayed."""
    before = threading.active_count()
    found: list[Hub] = []
    yield found
    for hub in found:
        hub.close()
    assert threading.active_count() <= before  # a thread that releases code may have ended meanwhile


def asking(name: str | None, **rest: object) -> GenerationRequest:
    sampling = SamplingParams(temperature=0.8, seed=1)
    fields = {"model": name, "messages": user("Hello"), "sampling": sampling, "max_tokens": 25}
    return GenerationRequest(**{**fields, **rest})  # type: ignore[arg-type]


def loaded(hub: Hub) -> list[str]:
    return [model.name for model in hub.models() if model.loaded]


def test_models_are_opened_when_they_are_named(
    store: Store, hubs: list[Hub], expected: dict[str, Reply]
) -> None:
    hub = hub_of(store, "windowed", "tiny", limits=QueueLimits(models=3))
    hubs.append(hub)
    assert [model.name for model in hub.models()] == ["windowed", "tiny", "other"]
    assert loaded(hub) == []
    assert hub.status().models == ()
    same(only(hub.submit(asking(None))), expected["windowed"])
    assert loaded(hub) == ["windowed"]
    for name in NAMES:
        ticket = hub.submit(asking(name))
        assert ticket.model == name
        same(only(ticket), expected[name])
    assert loaded(hub) == ["windowed", "tiny", "other"]
    status = hub.status()
    assert (status.slots, status.requests, status.waiting) == (9, 4, 0)
    names = ["windowed", *NAMES]
    assert status.completion_tokens == sum(len(expected[name].tokens) for name in names)
    assert status.as_json()["models"][0]["slots"][0]["busy"] is False


def test_the_model_that_was_used_longest_ago_makes_room(
    store: Store, hubs: list[Hub], expected: dict[str, Reply]
) -> None:
    hub = hub_of(store, limits=QueueLimits(models=2))
    hubs.append(hub)
    uses = (
        ("tiny", {"tiny"}),
        ("other", {"tiny", "other"}),
        ("tiny", {"tiny", "other"}),
        ("windowed", {"tiny", "windowed"}),
        ("other", {"windowed", "other"}),
    )
    for name, stay in uses:
        same(only(hub.submit(asking(name))), expected[name])
        assert {*loaded(hub)} == stay
    tokens = sum(len(expected[name].tokens) for name, _ in uses)
    assert hub.status().completion_tokens == tokens, "closed models count too"


def test_a_closed_model_is_gone(store: Store, hubs: list[Hub]) -> None:
    hub = hub_of(store, limits=ONE)
    hubs.append(hub)
    only(hub.submit(asking("tiny")))
    scheduler = hub._loading.entries["tiny"].scheduler
    assert scheduler is not None
    model = weakref.ref(scheduler.model)
    weights = weakref.ref(scheduler.model.loaded.backend)
    del scheduler
    only(hub.submit(asking("other")))
    assert (model(), weights()) == (None, None)
    scheduler = hub._loading.entries["other"].scheduler
    assert scheduler is not None
    model = weakref.ref(scheduler.model)
    del scheduler
    counts = hub.status().completion_tokens
    hub.close()
    assert model() is None
    assert hub.status().completion_tokens == counts


def test_replies_in_progress_end_before_their_model_makes_room(
    store: Store, hubs: list[Hub], expected: dict[str, Reply]
) -> None:
    hub = hub_of(store, limits=ONE)
    hubs.append(hub)
    long = asking("tiny", max_tokens=300)
    running = [hub.submit(long) for _ in range(3)]
    streams = [iter(ticket) for ticket in running]
    first = [next(stream) for stream in streams]
    other = hub.submit(asking("other"))
    again = hub.submit(asking("tiny"))
    same(only(other), expected["other"])
    same(only(again), expected["tiny"])
    for event, stream in zip(first, streams, strict=True):
        assert gathered([event, *stream])[0].reason in ("length", "stop", "loop")


def test_requests_to_three_models_with_room_for_one(
    store: Store, hubs: list[Hub], expected: dict[str, Reply]
) -> None:
    hub = hub_of(store, limits=ONE)
    hubs.append(hub)
    problems: list[BaseException] = []

    def client(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(4):
                name = chance.choice([*NAMES])
                same(only(hub.submit(asking(name))), expected[name])
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert problems == []
    assert len(loaded(hub)) == 1


def budgeted(store: Store, hubs: list[Hub], memory: int) -> Hub:
    hub = hub_of(store, config=replace(PLAIN, memory=memory, conversations=8))
    hubs.append(hub)
    return hub


def needs(store: Store, hubs: list[Hub], name: str) -> int:
    """Bytes that a model's plan has beside the process."""
    hub = budgeted(store, hubs, 1 << 40)
    hub.load(name)
    room = hub._room
    assert room is not None
    found = room._planned[name]
    hub.close()
    return found


def test_a_budget_decides_which_models_are_open_together(
    store: Store, hubs: list[Hub], expected: dict[str, Reply]
) -> None:
    """Its shares are never exceeded, whatever sampling requests name."""
    first, second = needs(store, hubs, "tiny"), needs(store, hubs, "other")
    small, large = sorted((first, second))
    for both in (True, False):
        memory = process_bytes() + large + small // 2 + (small if both else 0)
        hub = budgeted(store, hubs, memory)
        ledgers = []
        for name in ("tiny", "other", "tiny"):
            same(only(hub.submit(asking(name))), expected[name])
            whole = SamplingParams(temperature=1.0, top_p=0.9, repetition_penalty=1.2)
            only(hub.submit(asking(name, sampling=whole, logprobs=3)))
            form = GrammarSpec.of(regex="yes|no")
            assert only(hub.submit(asking(name, sampling=whole, grammar=form))).text in ("yes", "no")
            scheduler = hub._loading.entries[name].scheduler
            assert scheduler is not None
            ledgers.append(scheduler.model.runner.ledger)
        assert loaded(hub) == (["tiny", "other"] if both else ["tiny"])
        for ledger in ledgers:
            assert ledger.shares is not None
            assert all(most <= ledger.shares[name] for name, most in ledger.most().items())
        status = hub.status()
        assert status.memory_budget_bytes == memory
        assert status.memory_bytes > 0
        hub.close()


def test_a_model_that_does_not_fit_is_an_error_at_once(store: Store, hubs: list[Hub]) -> None:
    hub = budgeted(store, hubs, 1_000_000)
    with pytest.raises(MemoryBudgetError):
        only(hub.submit(asking("tiny")))
    with pytest.raises(MemoryBudgetError):
        hub.submit(asking("tiny"))
    with pytest.raises(MemoryBudgetError):
        hub.load("tiny")


def test_a_bundle_that_cannot_be_opened_fails_its_requests_alone(
    tmp_path: Path, store: Store, hubs: list[Hub], expected: dict[str, Reply]
) -> None:
    shutil.copytree(store.home / "models", tmp_path / "models")
    (tmp_path / "models" / "other" / "tokenizer.json").write_text("{}")
    hub = hub_of(Store(tmp_path))
    hubs.append(hub)
    for _ in range(2):
        with pytest.raises(EdgeDecError):
            only(hub.submit(asking("other")))
    with pytest.raises(BadFileError):
        hub.load("other")
    same(only(hub.submit(asking("tiny"))), expected["tiny"])
    (tmp_path / "models" / "windowed" / "manifest.json").write_text("{}")
    assert [model.context is None for model in hub.models()] == [False, True, True]


def test_a_model_of_another_runtime_has_one_slot(tmp_path: Path, store: Store, hubs: list[Hub]) -> None:
    """Its requests take turns, samples too."""
    lines: list[str] = []
    parrot = load_parrot(tmp_path, "Yes.")

    def open_model(bundle: Path, config: RunConfig) -> Model:
        return Model(prepared_of(parrot.model, config))

    hub = Hub(["tiny"], PLAIN, store=store, notice=lines.append, open_model=open_model)
    hubs.append(hub)
    tickets = [hub.submit(asking("tiny", samples=2)) for _ in range(3)]
    for ticket in tickets:
        assert [one.text for one in gathered(ticket).values()] == ["Yes.", "Yes."]
    assert hub.status().slots == 1
    assert len(lines) == 1
    assert "take turns" in lines[0]
    assert hub.status().cached_tokens > 0


def test_closing_while_a_model_opens(store: Store, hubs: list[Hub]) -> None:
    began, go = threading.Event(), threading.Event()
    usual = opener_of(store, lambda line: None)

    def open_model(bundle: Path, config: RunConfig) -> Model:
        began.set()
        assert go.wait(PATIENCE_S)
        return usual(bundle, config)

    hub = Hub(["tiny"], PLAIN, store=store, open_model=open_model)
    hubs.append(hub)
    ticket = hub.submit(asking("tiny"))
    assert began.wait(PATIENCE_S)
    status = hub.status()
    assert [(one.name, one.state, one.waiting) for one in status.models] == [("tiny", "loading", 1)]
    cancelled = hub.submit(asking("tiny"))
    cancelled.cancel()
    assert only(cancelled).reason == "interrupted"
    closing = threading.Thread(target=hub.close)
    closing.start()
    with pytest.raises(ClosingError):
        only(ticket)
    go.set()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    with pytest.raises(ClosingError):
        hub.submit(asking("tiny"))


def test_servers_that_cannot_be(store: Store) -> None:
    with pytest.raises(UsageError, match="needs a model"):
        Hub([], PLAIN, store=store)
    with pytest.raises(UsageError, match="number of bytes"):
        Hub(["tiny"], replace(PLAIN, memory=lambda facts, wanted: 1), store=store)
    with pytest.raises(NotFoundError):
        Hub(["tiny", "nobody"], PLAIN, store=store)
    with pytest.raises(UsageError, match="cannot be 0"):
        QueueLimits(waiting=0)


def test_a_reader_that_leaves_early_keeps_no_model(store: Store, hubs: list[Hub]) -> None:
    hub = hub_of(store)
    hubs.append(hub)
    ticket = hub.submit(asking("tiny", max_tokens=300))
    for event in ticket:
        assert isinstance(event, Piece)
        break
    hub.close()
    assert all(job.reply is None for job in ticket.jobs)


def test_texts_for_which_there_is_never_memory_are_the_clients_fault(store: Store, hubs: list[Hub]) -> None:
    """A server without memory for them now or later says how much would do; it is not out of memory."""
    hub = hub_of(store, "tiny")
    hubs.append(hub)
    hub.load()
    scheduler = hub._loading.entries["tiny"].scheduler
    assert scheduler is not None
    ledger = scheduler.model.runner.ledger
    ledger.reshare({**ledger.by_name(), SLACK: 8000})
    with pytest.raises(ContextFullError, match=r"there is 8\.0 kB for them .shorten them to 57 %"):
        only(hub.submit(asking("tiny", messages=user("x " * 1700))))
