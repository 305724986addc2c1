"""Real models in one process: their replies, prefixes, and memory within one budget."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from edgedec import api
from edgedec.assemble.config import RunConfig
from edgedec.assemble.prepare import Bundles
from edgedec.core.units import parse_size
from edgedec.models import Store
from edgedec.sampling.named import SamplingParams
from edgedec.server.work.hub import Hub
from edgedec.server.work.request import GenerationRequest
from edgedec.session.prompt import Message
from tests.patience import PATIENCE_S
from tests.server.work.hubs import gathered, only, user

pytestmark = pytest.mark.slow
NAMES = ("smollm2-135m", "gemma3-270m")
CONFIG = RunConfig(context=1024, conversations=4)
LONG = "The mill stands at the river and grinds seven sacks of flour a day, as it always did. " * 30


@pytest.fixture(scope="module")
def store() -> Store:
    found = Store()
    for name in NAMES:
        found.ensure(name, progress=lambda stage, done, total: None)
    return found


@pytest.fixture(scope="module")
def hub(store: Store) -> Iterator[Hub]:
    hub = Hub(NAMES, CONFIG, store=store)
    yield hub
    hub.close()


@pytest.mark.parametrize("name", NAMES)
def test_replies_together_are_those_alone(store: Store, hub: Hub, name: str) -> None:
    requests = [
        GenerationRequest(
            model=name,
            text=f"{text} {number}",
            sampling=SamplingParams(temperature=0.8, seed=number),
            max_tokens=40,
            samples=1 + number % 3,
        )
        for number, text in enumerate(["Once upon a time", LONG, "def add(a, b):", LONG, "One, two,"])
    ]
    tickets = [hub.submit(request) for request in requests]
    found = [gathered(ticket) for ticket in tickets]
    with api.open(Bundles(store.path(name)), replace(CONFIG, conversations=None), store=store) as model:
        for request, samples in zip(requests, found, strict=True):
            for number, got in samples.items():
                params = replace(request.sampling, seed=request.sampling.seed + number)  # type: ignore[operator]
                reply = model.complete(request.text or "", sampling=params, max_tokens=40)
                assert reply.read() == got.text
                assert reply.text_tokens == got.ids


def test_a_second_turn_reads_only_what_is_new(hub: Hub) -> None:
    request = GenerationRequest(
        messages=user(f"{LONG}What grinds?"), max_tokens=30, sampling=SamplingParams.greedy()
    )
    first = only(hub.submit(request))
    more = (*request.messages, Message("assistant", first.text), *user("And where does it stand?"))
    second = only(hub.submit(replace(request, messages=more)))
    assert first.usage.prompt_tokens > 500
    assert second.usage.prompt_tokens - second.usage.cached_tokens < 40
    assert second.usage.prefill_s < first.usage.prefill_s / 4


IN_TURNS = """
import json, sys
from edgedec.assemble.config import RunConfig
from edgedec.models import Store
from edgedec.sampling.named import SamplingParams
from edgedec.server.work.hub import Hub
from edgedec.server.work.request import GenerationRequest
from edgedec.telemetry.process import peak_rss_bytes, rss_bytes
memory, names = sys.argv[1], sys.argv[2:]
hub = Hub(names[:1], RunConfig(conversations=4, context=1024, memory=memory), store=Store())
sampling = SamplingParams(temperature=0.9, repetition_penalty=1.1)
found = []
for name in names:
    texts = [f"Once upon a time there was {number} " * 60 for number in range(6)]
    asked = [GenerationRequest(model=name, text=text, sampling=sampling, max_tokens=30) for text in texts]
    for ticket in [hub.submit(one) for one in asked]:
        list(ticket)
    found.append((rss_bytes(), [model.name for model in hub.models() if model.loaded]))
hub.close()
print(json.dumps({"found": found, "closed": rss_bytes(), "peak": peak_rss_bytes()}))
"""


@pytest.mark.parametrize(("memory", "together"), [("700MB", False), ("1300MB", True)])
def test_the_process_keeps_within_its_budget(store: Store, memory: str, together: bool) -> None:
    small, large = NAMES
    command = [sys.executable, "-c", IN_TURNS, memory, small, large, small, large]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["peak"] <= parse_size(memory)
    loaded = [names for _, names in figures["found"]]
    expected = [[small], [*NAMES], [*NAMES], [*NAMES]] if together else [[small], [large], [small], [large]]
    assert loaded == expected
    rss = [nbytes for nbytes, _ in figures["found"]]
    if not together:
        assert rss[2] < rss[1] - 50_000_000, "the larger one's memory was given back"
    assert rss[3] < rss[1] + 50_000_000
    assert figures["closed"] < rss[3] - 150_000_000
