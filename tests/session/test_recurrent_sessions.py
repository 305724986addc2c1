"""Conversations with models that keep recurrent states: saved, restored, taken back, drafted, in a batch and
within a budget, their tokens are those of one that goes on without drafts.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.backends.onnx.model import OnnxModel
from edgedec.backends.state_store import snapshot_bytes
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Forward
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import peak
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.reply import Settings
from tests.fixtures.hybrid_bundles import HybridBundles, hybrid_bundles
from tests.fixtures.ready import chat_of
from tests.fixtures.replies import always
from tests.fixtures.sessions import restore_session, save_session
from tests.fixtures.tiny_hybrid import HYBRIDS
from tests.fixtures.tiny_models import opened, run_tiny

__all__ = ["hybrid_bundles"]  # a fixture
WORDS = ("Hello", "hello world", "the end", "and the hello of the world", "no", "the world " * 9)
FAST, ALL = range(3), range(3, 80)
LIMIT_S = 60.0


def drafts() -> Speculation:
    return Speculation([Lookup(), Recycling()], limit=40)


def said(chat: Chat, text: str) -> list[int]:
    list(chat.reply(text))
    assert chat.last is not None
    return chat.last.tokens


def conversation(bundle: Path, path: Path, seed: int) -> tuple[int, int]:
    """Compare two chats, of which one is saved and restored now and then, and drafts; tokens and drafts."""
    draw = random.Random(seed)
    params = draw.choice([DrawParams(), DrawParams(temperature=1.4, top_p=0.9, seed=seed)])
    settings = Settings(params, draw.choice([10, 40]))
    first, model_id = opened(bundle)
    plain = chat_of(first, settings, system=draw.choice([None, "Be brief. " * 9]))
    second, _ = opened(bundle)
    other = chat_of(second, settings, system=plain.system, speculation=drafts())
    tokens = accepted = 0
    for _ in range(6):
        if plain.last and draw.random() < 0.4:
            assert plain.take_back() == other.take_back()
        if plain.last and draw.random() < 0.4:
            save_session(path, other, model_id)
            third, _ = opened(bundle)
            other = chat_of(third, settings, speculation=drafts())
            restore_session(path, other, model_id, print)
        text = draw.choice(WORDS)
        expected = said(plain, text)
        assert said(other, text) == expected
        assert other.messages == plain.messages
        tokens += len(expected)
        assert other.last is not None
        accepted += sum(source is not None for source in other.last.sources)
    return tokens, accepted


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_conversations(architecture: str, hybrid_bundles: HybridBundles, tmp_path: Path) -> None:
    bundle = hybrid_bundles(architecture, few=True)
    found = [conversation(bundle, tmp_path / "talk", seed) for seed in FAST]
    assert sum(accepted for _, accepted in found) > 10


@pytest.mark.slow
@pytest.mark.parametrize("architecture", HYBRIDS)
def test_many_conversations(architecture: str, hybrid_bundles: HybridBundles, tmp_path: Path) -> None:
    for seed in ALL:
        conversation(hybrid_bundles(architecture, few=seed % 2 == 0), tmp_path / "talk", seed)


def test_a_reply_that_is_asked_for_again_reads_the_end_of_its_prompt_only(
    hybrid_bundles: HybridBundles,
) -> None:
    model, _ = opened(hybrid_bundles("qwen35"))
    chat = chat_of(model, Settings(DrawParams(), 30), system="Be brief. " * 12)
    once = said(chat, "Hello")
    assert chat.last is not None
    prompt = len(chat.engine.committed) - len(once)
    chat.take_back()
    assert said(chat, "Hello") == once
    assert prompt > 60
    assert prompt - 32 - 29 <= chat.last.reused < prompt  # a piece that is short, behind a checkpoint


LONG = "the world and the end of the hello " * 4


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_a_changed_last_message_is_read_alone(architecture: str, hybrid_bundles: HybridBundles) -> None:
    bundle = hybrid_bundles(architecture)
    chat, other = (chat_of(opened(bundle)[0], Settings(DrawParams(), 8), system=LONG) for _ in range(2))
    said(chat, LONG)
    said(other, LONG)
    before = len(chat.engine.committed)
    said(chat, "Hello " + LONG)
    chat.take_back()
    answer = said(chat, "no " + LONG)
    assert answer == said(other, "no " + LONG)
    assert chat.last is not None
    assert before - 29 - 8 <= chat.last.reused < before + 8
    assert len(chat.last.prompt) - chat.last.reused > 60


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_another_conversation_goes_on_from_the_system_message(
    architecture: str, hybrid_bundles: HybridBundles
) -> None:
    bundle = hybrid_bundles(architecture)
    settings, system = Settings(DrawParams(), 8), LONG + LONG
    chat, other = (chat_of(opened(bundle)[0], settings, system=system) for _ in range(2))
    for text in ("Hello", LONG):
        said(chat, text)
    chat.reset()
    assert said(chat, "no " + LONG) == said(other, "no " + LONG)
    assert chat.last is not None
    assert chat.last.reused > 60


def test_snapshots_keep_to_their_share(hybrid_bundles: HybridBundles) -> None:
    def room_for_some(facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return peak(facts, wanted) + 3 * snapshot_bytes(facts.target.spec.states)

    def none(facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return peak(facts, wanted)

    bundle = hybrid_bundles("qwen35")
    prompt = [5 + at % 60 for at in range(70)] + [2] + [9] * 70 + [2] + [11] * 70 + [2] + [12] * 5
    said = []
    for rule in (room_for_some, none):
        runner = run_tiny(bundle, memory=rule, context=400).runner
        assert runner.budget
        engine = runner.engine
        said += [reply(engine, prompt, 8), reply(engine, prompt[:80] + [7] * 100, 8)]
        planned = 3 * snapshot_bytes(runner.model.spec.states) if rule is room_for_some else 0
        most = runner.ledger.most().get("snapshots", 0)
        assert runner.budget.plan.parts.get("snapshots", 0) == planned == most
    assert said[:2] == said[2:]


@pytest.mark.parametrize("architecture", HYBRIDS)
@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_a_budget_changes_no_token(architecture: str, kv: str, hybrid_bundles: HybridBundles) -> None:
    """Prompts in pieces of 16 tokens and small trees, in the bytes that the plan promises."""

    def tight(facts: MemoryFacts, wanted: MemoryChoice) -> int:
        return peak(facts, replace(wanted, prompt_pass=16, drafted=7))

    bundle, prompt = hybrid_bundles(architecture), [5 + at % 60 for at in range(120)]
    plain = run_tiny(bundle, kv=kv).runner.engine
    small = run_tiny(bundle, kv=kv, draft="lookup,recycling", memory=tight).runner
    assert small.budget
    assert small.budget.choice.prompt_pass == 16
    assert small.ledger.by_name()["state"] == small.budget.plan.parts["state"]
    with always(small.engine):
        for count, end in ((30, 120), (30, 80), (12, 119)):
            assert reply(small.engine, prompt[:end], count) == reply(plain, prompt[:end], count)
    for name, most in small.ledger.most().items():
        assert most <= small.budget.plan.parts[name]


def reply(engine: Engine, prompt: list[int], count: int) -> list[int]:
    return [step.token for step in engine.generate(prompt, DrawParams(), max_tokens=count, stop_ids=())]


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_a_batch_says_what_each_says_alone(architecture: str, hybrid_bundles: HybridBundles) -> None:
    """Replies in threads of their own, that begin with copies of each other's prompts."""
    bundle = hybrid_bundles(architecture)
    model = OnnxModel(bundle, Manifest.load(bundle), threads=1, spin=False)
    shared = [7 + at % 90 for at in range(70)]
    prompts = [shared + [3 + number] * (1 + 20 * number) for number in range(3)]
    found: dict[int, list[int]] = {}
    with model.sequences(3, CacheConfig(256, None, 64), batch_tokens=192) as batch:
        engines = [Engine(forward, speculation=drafts()) for forward in batch.forwards]

        def run(number: int) -> None:
            engine = engines[number]
            if number and engine.adopt_prefix(engines[0], 70):
                copied.append(number)
            with batch.reply(number):
                found[number] = reply(engine, prompts[number], 40)

        copied: list[int] = []
        list(one_token(engines[0], batch.reply(0), shared))
        threads = [threading.Thread(target=run, args=(number,)) for number in (1, 2, 0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
    alone: list[Forward] = [model.forward(CacheConfig(256, None, 64)) for _ in prompts]
    assert [found[number] for number in range(3)] == [
        reply(Engine(forward), prompt, 40) for forward, prompt in zip(alone, prompts, strict=True)
    ]


def one_token(engine: Engine, turn: object, prompt: list[int]) -> Iterator[int]:
    with ExitStack() as stack:
        stack.enter_context(turn)  # type: ignore[arg-type]
        yield from reply(engine, prompt, 1)


def test_tokens_cannot_leave_a_state(hybrid_bundles: HybridBundles) -> None:
    with pytest.raises(UnsupportedError, match="keeps recurrent states, which cannot forget"):
        run_tiny(hybrid_bundles("lfm2"), when_full="slide")
