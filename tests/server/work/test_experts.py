"""A server of a model whose experts come from the disk: its replies, and a disk that fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.assemble import budget
from edgedec.backends.onnx import expert_store
from edgedec.core.errors import BackendError
from edgedec.grammar import GrammarSpec
from edgedec.models import Store
from edgedec.sampling.named import SamplingParams
from edgedec.server.work.hub import Hub
from edgedec.server.work.request import GenerationRequest
from edgedec.session.prompt import Message
from tests.fixtures.streamed import LAYERS, cut, sparse_bundle
from tests.server.work.hubs import PLAIN, Alone, gathered, hub_of, only, same, user

LONG = "The mill stands at the river and grinds seven sacks of flour a day. "
DRAFTED = replace(PLAIN, draft="lookup,recycling")


@pytest.fixture(scope="module", params=LAYERS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("server")
    models = folder / "home" / "models"
    models.mkdir(parents=True)
    sparse_bundle(folder, request.param).rename(models / "tiny")
    return Store(folder / "home")


@pytest.fixture(scope="module")
def alone(store: Store) -> Iterator[Alone]:
    """The model with all in memory, for one reply at a time."""
    made = Alone(store)
    assert made.model.loaded.backend.experts is None
    yield made
    made.model.close()


@pytest.fixture(params=[PLAIN, DRAFTED], ids=["plain", "drafted"])
def hub(request: pytest.FixtureRequest, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(expert_store, "available_bytes", lambda: 1)
    made = hub_of(store, config=request.param)
    yield made
    made.close()


@pytest.mark.parametrize("slots", [1, 3])
def test_a_budget_of_the_server_keeps_experts_on_the_disk(
    store: Store, alone: Alone, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here one that no model with all its experts fits, as ``expert_store`` counts."""
    monkeypatch.setattr(budget, "rss_bytes", lambda: 100_000_000)  # the tests' own process may be larger
    monkeypatch.setattr(budget, "mapped_rss_bytes", lambda name: 0)
    said: list[str] = []
    hub = Hub(
        ["tiny"], replace(DRAFTED, memory="500MB", conversations=slots), store=store, notice=said.append
    )
    try:
        same(only(hub.submit(asked(LONG, 0))), alone.reply(asked(LONG, 0)))
    finally:
        hub.close()
    assert [line for line in said if "experts; each is read when a token first needs it" in line]


def asked(text: str, number: int, **more: object) -> GenerationRequest:
    sampling = SamplingParams(temperature=0.8, seed=number) if number % 2 else SamplingParams.greedy()
    return GenerationRequest(messages=user(text), sampling=sampling, max_tokens=12, **more)  # type: ignore[arg-type]


def test_replies_together_are_those_alone(alone: Alone, hub: Hub) -> None:
    requests = [asked(LONG * number, number, samples=1 + number % 3) for number in range(1, 5)]
    found = [gathered(ticket) for ticket in [hub.submit(request) for request in requests]]
    for request, samples in zip(requests, found, strict=True):
        for number, got in samples.items():
            same(got, alone.reply(request, number))


def test_a_form_is_kept_to(alone: Alone, hub: Hub) -> None:
    form = GrammarSpec.of(regex="(yes|no), [a-z]{3,9}")
    for number in range(3):
        request = asked("And the mill?", number, grammar=form)
        got = only(hub.submit(request))
        params = request.sampling.over(alone.model.sampling)
        chat = alone.model.chat(messages=request.messages, sampling=params, max_tokens=12, grammar=form)
        assert got.text == chat.reply(final=True).read()


def test_a_second_turn_reads_only_what_is_new(alone: Alone, hub: Hub) -> None:
    request = asked(LONG * 3, 0)
    first = only(hub.submit(request))
    more = (*request.messages, Message("assistant", first.text), *user("And where does it stand?"))
    second = only(hub.submit(replace(request, messages=more)))
    assert second.usage.cached_tokens > first.usage.prompt_tokens // 2
    same(second, alone.reply(replace(request, messages=more)))


def test_a_disk_that_fails_ends_replies_in_one_line_and_later_ones_are_right(
    store: Store, alone: Alone, hub: Hub
) -> None:
    request = asked(LONG, 0)
    same(only(hub.submit(request)), alone.reply(request))
    bundle: Path = store.path("tiny")
    with cut(bundle):
        tickets = [hub.submit(asked(f"{LONG} {number}" * 2, number)) for number in range(3)]
        for ticket in tickets:
            with pytest.raises(BackendError, match="an expert cannot be read") as caught:
                gathered(ticket)
            assert "\n" not in str(caught.value)
    for number in range(3):
        same(only(hub.submit(asked(LONG, number))), alone.reply(asked(LONG, number)))
