"""Conversations at random with drafters that belong to their target: rewound, saved, restored, in few bytes.

Each says what one without drafts says, over models with whole caches, windows and recurrent states; and
conversations in a batch say what each says alone.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from edgedec.assemble.runner import Runner
from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP
from edgedec.bundle.model_id import ModelId
from edgedec.export import export_gguf
from edgedec.kernels import library
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import peak
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.host import Host
from edgedec.session.prompt import conversation_of
from edgedec.session.reply import Settings
from tests.fixtures.carried import PLACES, Place
from tests.fixtures.nightly import every
from tests.fixtures.replies import always, reply
from tests.fixtures.sessions import restore_session, save_session
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape

SAYS = 12
"""Ids that the targets say, so that drafts are often right."""
CASES = {
    "head": (HEAD, "llama", {"keep": range(SAYS)}),
    "head over windows": (HEAD, "gemma3", {"keep": range(SAYS), "taps": (1, 3, 6)}),
    "head over delta states": (HEAD, "qwen35", {"keep": range(SAYS), "taps": (0, 2, 4)}),
    "head over convolutions": (HEAD, "lfm2", {"keep": range(SAYS), "taps": (1, 2, 3)}),
    "mtp": (MTP, "llama", {}),
    "mtp over delta states": (MTP, "qwen35", {}),
    "assistant": (ASSISTANT, "gemma3", {}),
    "assistant of Gemma 4": (ASSISTANT, "gemma4", {}),
}
FAST, ALL, ROWS = range(1), range(1, 130), range(500, 501)
WORDS = ("Hello", "hello world", "the end", "and the hello of the world", "no", "the world " * 9)
LIMIT_S = 60.0


def tight(facts: MemoryFacts, wanted: MemoryChoice) -> int:
    """Prompts in pieces of 16 tokens and small trees, with room for some rows of sampled replies."""
    return peak(facts, replace(wanted, prompt_pass=16, drafted=7)) + 100_000


class How(NamedTuple):
    """A way to run; ``limit``: most drafted tokens of a pass."""

    draft: str
    kv: str
    limit: int
    budget: bool


class Runs:
    """Runs of one target, each made once: the tests go on with the caches of earlier conversations."""

    experts = ExpertShape()

    def __init__(self, folder: Path, kind: str, architecture: str, how: dict[str, object]) -> None:
        layers = 7 if architecture.startswith("gemma") else 5
        delta = DeltaShape(nextn=int(kind == MTP))
        shape = TinyShape(layers=layers, context=512, delta=delta, experts=self.experts)
        mute = tuple(range(SAYS, 260))
        gguf = write_tiny(folder / "m.gguf", architecture, shape=shape, mute=mute, sharpness=4.0)
        export_gguf(gguf, folder / "bundle")
        self.place: Place = PLACES[kind](folder, bundle=folder / "bundle", **how)
        self.model_id = ModelId.of(self.place.manifest)
        self._made: dict[tuple[How, int], Runner] = {}

    def of(self, how: How, number: int = 0) -> Runner:
        if (how, number) not in self._made:
            settings = {"memory": tight} if how.budget else {}
            made = self.place.runner(how.draft, kv=how.kv, draft_tokens=how.limit, **settings)
            assert not (how.budget and made.budget and made.budget.plan.choice.prompt_pass == 128)
            self._made[how, number] = made
        return self._made[how, number]

    def draw(self, draw: random.Random) -> How:
        more = draw.choice(["", "", ",lookup", ",lookup,recycling"])
        kv, limit = draw.choice(["fp16", "int8"]), draw.choice([1, 3, 15])
        return How(self.place.kind + more, kv, limit, draw.random() < 0.3)

    def forget(self) -> None:
        self._made.clear()


def params_of(draw: random.Random) -> DrawParams:
    sampled = DrawParams(temperature=1.3, top_p=0.9, seed=draw.randrange(1 << 30))
    return draw.choice([DrawParams(), sampled, replace(sampled, repetition_penalty=1.2)])


def chat_with(runner: Runner, settings: Settings, system: str | None) -> Chat:
    runner.make_room_for(settings.params)
    return Chat(
        runner.engine,
        runner.model.codec,
        settings,
        messages=conversation_of((), system),
        host=Host(lambda line: None),
    )


def said(chat: Chat, text: str) -> list[int]:
    list(chat.reply(text))
    assert chat.last is not None
    return chat.last.tokens


def conversation(runs: Runs, path: Path, seed: int) -> list[int]:
    """Compare two chats, of which one drafts and is saved and restored now and then; return the tokens."""
    draw, tokens = random.Random(seed), list[int]()
    how, settings = runs.draw(draw), Settings(params_of(draw), draw.choice([5, 12, 40]))
    system, turn = draw.choice([None, "Be brief. " * 9]), 0
    alone = runs.of(How("off", how.kv, 15, False))
    plain = chat_with(alone, settings, system)
    runner = runs.of(how)
    other = chat_with(runner, settings, system)
    for _ in range(5):
        if plain.last and draw.random() < 0.4:
            assert plain.take_back() == other.take_back()
        if plain.last and draw.random() < 0.4:
            save_session(path, other, runs.model_id)
            turn = 1 - turn
            runner = runs.of(how, turn)
            other = chat_with(runner, settings, None)
            restore_session(path, other, runs.model_id, print)
        text = draw.choice(WORDS)
        expected = said(plain, text)
        with always(runner.engine):
            assert said(other, text) == expected
        assert other.messages == plain.messages
        assert runner.engine.speculation
        assert runs.place.kind in runner.engine.speculation.drafters  # no fault dropped it
        tokens += expected
    return tokens


def in_a_batch(runs: Runs, seed: int) -> None:
    """Compare replies in threads of their own with those of each conversation alone, drafted."""
    draw = random.Random(seed)
    how = runs.draw(draw)
    prompts = [[draw.randrange(3, 250) for _ in range(draw.randrange(1, 90))] for _ in range(3)]
    replies = [(params_of(draw), draw.randrange(1, 40)) for _ in prompts]
    found: dict[int, list[int]] = {}
    batch = Runner(runs.place.prepared("lookup,recycling", kv=how.kv, conversations=3))

    def run(number: int) -> None:
        with batch.reply(number), always(batch.engines[number]):
            found[number] = reply(batch.engines[number], prompts[number], *replies[number])

    try:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(LIMIT_S)
    finally:
        batch.close()
    runner = runs.of(how._replace(budget=False))
    with always(runner.engine):
        alone = [reply(runner.engine, prompt, *drawn) for prompt, drawn in zip(prompts, replies, strict=True)]
    assert [found[number] for number in range(3)] == alone


def drafted(runs: Runs) -> int:
    """Tokens that the target's own drafter proposed in all runs."""
    tallies = [one.engine.speculation.tally for one in runs._made.values() if one.engine.speculation]
    return sum(one.by_drafter[runs.place.kind].proposed for one in tallies)


@pytest.fixture(scope="module", params=CASES)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"), *CASES[request.param])


def check(runs: Runs, path: Path, seeds: Sequence[int]) -> None:
    for seed in seeds:
        conversation(runs, path, seed)
        if seed % 4 == 0:
            in_a_batch(runs, seed)
    assert drafted(runs) > 20 * len(seeds)
    runs.forget()


def test_conversations(runs: Runs, tmp_path: Path) -> None:
    check(runs, tmp_path / "talk", FAST)


@pytest.mark.slow
def test_many_conversations(runs: Runs, tmp_path: Path) -> None:
    check(runs, tmp_path / "talk", ALL)


@pytest.mark.parametrize("runs", every(4, CASES), indirect=True)
def test_every_row_of_the_kernels_says_the_same(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for isa in library.available():
        monkeypatch.setenv("EDGEDEC_ISA", isa)
        told = [conversation(runs, tmp_path / "talk", seed) for seed in ROWS]
        found[isa] = hashlib.sha256(repr(told).encode()).hexdigest()
        runs.forget()
    assert "scalar" in found
    assert len({*found.values()}) == 1, found
