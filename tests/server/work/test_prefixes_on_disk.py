"""Servers that keep the beginnings of prompts on the disk: replies, counts, two of them, and killed ones."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from edgedec.models import Store
from edgedec.sampling.named import SamplingParams
from edgedec.server.http.metrics import Metrics
from edgedec.server.work.hub import Hub
from edgedec.server.work.request import GenerationRequest
from edgedec.session import saved_prefixes
from edgedec.session.prompt import Message
from tests.conftest import ROOT
from tests.patience import PATIENCE_S
from tests.server.work.hubs import PLAIN, Got, hub_of, only, store_of

SYSTEM = Message("system", "The cat sat on the mat, and the dog sat on the cat. " * 5)
SAVING = replace(PLAIN, prefixes="1GB")
NAMES = {"plain": "llama", "windowed": "gemma3", "recurrent": "qwen35"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return store_of(tmp_path_factory.mktemp("server"), **NAMES)


@pytest.fixture
def store(made: Store, tmp_path: Path) -> Store:
    """A home of its own, with the models of all."""
    (tmp_path / "models").symlink_to(made.home / "models")
    return Store(tmp_path)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models read short prompts, in no time."""
    monkeypatch.setattr(saved_prefixes, "_LEAST_TOKENS", 100)
    monkeypatch.setattr(saved_prefixes, "_MEASURED_TOKENS", 16)
    monkeypatch.setattr(saved_prefixes, "_JUDGED_S", PATIENCE_S)
    monkeypatch.setattr(saved_prefixes.SavedPrefixes, "_worth", lambda *_: True)


def asked(model: str, text: str) -> GenerationRequest:
    greedy = SamplingParams(temperature=0)
    messages = (SYSTEM, Message("user", text))
    return GenerationRequest(messages=messages, model=model, sampling=greedy, max_tokens=12)


def answers(hub: Hub, model: str, *texts: str) -> list[Got]:
    return [only(hub.submit(asked(model, text))) for text in texts]


@pytest.fixture
def hubs(store: Store) -> Iterator[list[Hub]]:
    found: list[Hub] = []
    yield found
    for hub in found:
        hub.close()


@pytest.mark.parametrize("model", [*NAMES])
def test_a_restarted_server_reads_prompts_from_the_disk(model: str, store: Store, hubs: list[Hub]) -> None:
    plain = hub_of(store, model)
    hubs.append(plain)
    expected = answers(plain, model, "Hello", "What?")
    first = hub_of(store, model, config=SAVING)
    assert [one.ids for one in answers(first, model, "Hello")] == [expected[0].ids]
    first.close()
    second = hub_of(store, model, config=SAVING)
    hubs.append(second)
    again = answers(second, model, "Hello", "What?")
    assert [one.ids for one in again] == [one.ids for one in expected]
    usage = again[0].usage
    assert usage.prompt_tokens > usage.cached_tokens >= usage.disk_tokens > 150
    status = second.status()
    assert status.disk_tokens == sum(one.usage.disk_tokens for one in again)
    figures = Metrics(second.status).text().decode()
    assert f'edgedec_tokens_total{{kind="disk"}} {float(status.disk_tokens)}' in figures


def test_servers_share_a_folder(store: Store, hubs: list[Hub]) -> None:
    """What one saved, another one reads, also while both write and the bound is tight."""
    plain = hub_of(store, "plain")
    texts = [f"What is {number}?" for number in range(6)]
    expected = [one.ids for one in answers(plain, "plain", *texts)]
    two = [hub_of(store, "plain", config=replace(PLAIN, prefixes=limit)) for limit in ("1GB", "300kB")]
    hubs += [plain, *two]
    for hub in two:
        hub.load("plain")
    for number, text in enumerate(texts):
        for hub in two:
            assert answers(hub, "plain", text)[0].ids == expected[number]
    tickets = [(number, hub.submit(asked("plain", text))) for number, text in enumerate(texts) for hub in two]
    for number, ticket in tickets:
        assert only(ticket).ids == expected[number]


def some_talk(rng: random.Random) -> tuple[Message, ...]:
    """A conversation that others begin like, to be cut, changed or gone on with."""
    said = [SYSTEM] if rng.random() < 0.8 else []
    for turn in range(rng.randint(1, 2)):
        text = rng.choice(["Hello", "What?", "The cat sat on the mat. " * 3])
        said.append(Message("user", f"{text} {turn}"))
        said.append(Message("assistant", rng.choice(["No.", "The dog sat. " * 3])))
    return tuple(said[:-1])


def random_talks(model: str, store: Store, seed: int, count: int) -> int:
    """Ask servers that share a small folder and end now and then; returns the tokens from the disk."""
    rng, found = random.Random(seed), 0
    pool = [some_talk(rng) for _ in range(8)]
    plain = hub_of(store, model)
    requests = [
        GenerationRequest(messages=one, model=model, sampling=SamplingParams(temperature=0), max_tokens=10)
        for one in pool
    ]
    expected = [only(plain.submit(one)).ids for one in requests]
    plain.close()
    saving = replace(PLAIN, prefixes=rng.choice(["150kB", "1MB", "1GB"]), draft=rng.choice(["off", "lookup"]))
    hubs = [hub_of(store, model, config=saving) for _ in range(2)]
    try:
        for _ in range(count):
            if rng.random() < 0.3:
                at = rng.randrange(2)
                hubs[at].close()
                hubs[at] = hub_of(store, model, config=saving)
            asked_now = [(rng.randrange(len(pool)), rng.choice(hubs)) for _ in range(rng.randint(1, 4))]
            tickets = [(which, hub.submit(requests[which])) for which, hub in asked_now]
            for which, ticket in tickets:
                got = only(ticket)
                assert got.ids == expected[which], (seed, which)
                found += got.usage.disk_tokens
    finally:
        for hub in hubs:
            hub.close()
    return found


@pytest.mark.parametrize("model", [*NAMES])
def test_random_conversations(model: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_prefixes, "_LEAST_TOKENS", 64)
    assert sum(random_talks(model, store, seed, 8) for seed in range(2)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("model", [*NAMES])
def test_many_random_conversations(model: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_prefixes, "_LEAST_TOKENS", 64)
    assert sum(random_talks(model, store, seed, 20) for seed in range(2, 14)) > 0


SAVER = """
import sys
from pathlib import Path
from edgedec.session import saved_prefixes
from tests.session.test_saved_prefixes import Side, talk
side = Side(Path(sys.argv[1]), Path(sys.argv[2]), context=512)
saved_prefixes._LEAST_TOKENS = 100
print("ready", flush=True)
for seed in range(int(sys.argv[3]), 1000):
    side.reply(talk(300, 120, seed=seed, of=sys.argv[4]), 2)
"""


SLOWLY = [pytest.param(name, marks=() if name == "plain" else pytest.mark.slow) for name in NAMES]


@pytest.mark.parametrize("model", SLOWLY)
def test_a_killed_writer_leaves_nothing_that_is_read(model: str, made: Store, tmp_path: Path) -> None:
    """kill -9 at any moment: every file under a name is whole, and the rest goes away in time."""
    from tests.session import test_saved_prefixes
    from tests.session.test_saved_prefixes import Side, files

    talk = partial(test_saved_prefixes.talk, of=NAMES[model])
    bundle, rng = made.home / "models" / model, random.Random(5)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": ""}
    cut = 0
    for number in range(6):
        command = [sys.executable, "-c", SAVER, str(bundle), str(tmp_path), str(number * 100), NAMES[model]]
        victim = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.05, 0.5))
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        cut += sum(".partial-" in path.name for path in files(tmp_path))
    whole = [path for path in files(tmp_path) if ".partial-" not in path.name]
    assert whole
    plain = Side(bundle, tmp_path / "none", context=512)
    side = Side(bundle, tmp_path, context=512)
    gained = 0
    for seed in (0, 1, 100, 101, 200, 300, 400, 500):
        prompt = talk(300, 120, seed=seed)
        found, tokens = side.reply(prompt)
        gained += found
        assert tokens == plain.reply(prompt)[1]
    assert gained > 800
    assert not side.lines  # none was damaged
    for path in files(tmp_path):
        os.utime(path, (time.time() - 3600,) * 2)
    Side(bundle, tmp_path, context=512).reply(talk(300, 130, seed=9))
    assert not [path for path in files(tmp_path) if ".partial-" in path.name]
