"""A server's models on a GPU: the CPU's tokens, one bound on its memory, and a device that is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.backends.gpu import opening
from edgedec.backends.gpu.executor import Executor
from edgedec.core.errors import BackendError, DeviceLostError, MemoryBudgetError, Remedy
from edgedec.models import Store
from edgedec.server.work.hub import Hub
from edgedec.server.work.room import GpuRoom, NoRoomBeside
from edgedec.session.reply import Reply
from tests.fixtures.nightly import every
from tests.gpu.adapters import adapter
from tests.gpu.conftest import Shared
from tests.server.fakes import running
from tests.server.http.test_chat import refused
from tests.server.work.hubs import PLAIN, Alone, only, same, store_of, user
from tests.server.work.test_hub import asking, loaded

ON_GPU = replace(PLAIN, device="gpu", conversations=2)
NAMES = {"tiny": "llama", "other": "qwen3"}
TEXTS = "Hello", "a b a b a b a b"
LOST = "the GPU Toy was lost: it did not answer for 60 seconds"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return store_of(tmp_path_factory.mktemp("server"), **NAMES)


@pytest.fixture(scope="module")
def expected(store: Store) -> dict[str, Reply]:
    """The CPU's replies to ``TEXTS``."""
    alone = Alone(store)
    with alone.model:
        return {text: alone.reply(asking("tiny", messages=user(text))) for text in TEXTS}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the adapter of this machine, a software one too, the only one, with one device."""
    one = adapter()
    monkeypatch.setattr(opening, "adapters", lambda: [one])
    monkeypatch.setattr(opening, "choose", lambda found: found[0])
    monkeypatch.setattr(opening, "GpuDevice", Shared)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def serve(store: Store, said: list[str]) -> Iterator[Callable[..., Hub]]:
    """Makes hubs whose notices ``said`` has, and closes them."""
    made: list[Hub] = []

    def hub(config: RunConfig = ON_GPU, **more: Any) -> Hub:
        made.append(Hub(["tiny"], replace(config, **more), store=store, notice=said.append))
        return made[-1]

    yield hub
    for one in made:
        one.close()


def check(hub: Hub, expected: dict[str, Reply]) -> None:
    """Ask for all of ``expected`` at once."""
    tickets = {text: hub.submit(asking("tiny", messages=user(text))) for text in expected}
    for text, ticket in tickets.items():
        same(only(ticket), expected[text])


@pytest.mark.parametrize("draft", every(2, ["lookup,recycling", "off"]))
def test_two_conversations_at_once_have_the_tokens_of_the_cpu(
    serve: Callable[..., Hub], said: list[str], expected: dict[str, Reply], draft: str
) -> None:
    hub = serve(draft=draft)
    check(hub, expected)
    assert len(hub.status().models[0].slots) == 2
    assert sum(line.startswith(f"tiny runs on {adapter().name}") for line in said) == 1


def test_a_model_that_is_cut_answers_requests_in_turn(
    serve: Callable[..., Hub], said: list[str], expected: dict[str, Reply]
) -> None:
    hub = serve(gpu_layers=1)
    check(hub, expected)
    assert len(hub.status().models[0].slots) == 1
    assert sum(line.endswith("one conversation at a time: its requests take turns") for line in said) == 1


def losing(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Lose the device in pass ``at`` and all later ones."""
    passes, real = [0], Executor.run

    def run(self: Executor, fed: Any) -> Any:
        passes[0] += 1
        if passes[0] >= at:
            raise DeviceLostError(LOST)
        return real(self, fed)

    monkeypatch.setattr(Executor, "run", run)


@pytest.mark.parametrize("at", [1, 9])
def test_after_a_loss_all_conversations_go_on_on_the_cpu(
    serve: Callable[..., Hub],
    said: list[str],
    expected: dict[str, Reply],
    monkeypatch: pytest.MonkeyPatch,
    at: int,
) -> None:
    losing(monkeypatch, at)
    hub = serve()
    check(hub, expected)
    check(hub, expected)
    assert [line for line in said if "lost" in line] == [f"note: {LOST}; the model goes on on the CPU"]
    assert hub.status().failed == 0


def test_where_the_cpu_has_no_room_a_loss_is_the_error_of_each_request(
    serve: Callable[..., Hub], expected: dict[str, Reply], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise BackendError("no memory for the weights")

    losing(monkeypatch, 4)
    monkeypatch.setattr(opening, "OnnxModel", no_room)
    hub = serve()
    for _ in range(2):
        with pytest.raises(BackendError, match="no memory for the weights"):
            only(hub.submit(asking("tiny")))
    assert hub.status().failed == 2
    asked = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9}
    with running(hub) as server, server.client() as client:
        for body in (asked, {**asked, "stream": True}):
            answer = client.post("/v1/chat/completions", json=body)
            assert refused(answer, 500)["type"] == "server_error"
            assert "BackendError: no memory for the weights" in str(server.line_of(answer))


def test_models_share_the_bound_on_the_memory_of_the_gpu(
    serve: Callable[..., Hub], said: list[str], expected: dict[str, Reply]
) -> None:
    hub = serve(device_memory="100MB")
    check(hub, expected)
    only(hub.submit(asking("other")))
    assert {*loaded(hub)} == {*NAMES}
    hub.close()
    one = serve()
    one.load()
    scheduler = one._loading.entries["tiny"].scheduler
    assert scheduler is not None
    most = int(1.5 * sum(scheduler.model.loaded.backend.device_bytes().values()))
    tight = serve(device_memory=most)
    for name in ("tiny", "other", "tiny"):
        only(tight.submit(asking(name)))
        assert loaded(tight) == [name]
    assert [line for line in said if line.startswith("closed ")] == [
        "closed tiny to make room",
        "closed other to make room",
    ]
    too_tight = serve(device_memory=200_000)
    with pytest.raises(MemoryBudgetError, match="may take 200"):
        only(too_tight.submit(asking("tiny")))


def test_a_model_too_large_for_the_whole_bound_closes_no_other() -> None:
    room = GpuRoom(100)
    too_much = MemoryBudgetError("x takes too much", remedy=Remedy("device_memory", 101))
    enough = MemoryBudgetError("x takes too much", remedy=Remedy("device_memory", 100))
    room.refuse(enough)  # nothing is open that could make room
    room.opened("a", 60)
    assert room.left == 40
    room.refuse(too_much)
    with pytest.raises(NoRoomBeside):
        room.refuse(enough)
    room.closed("a")
    assert room.left == 100
    assert GpuRoom(None).left is None
