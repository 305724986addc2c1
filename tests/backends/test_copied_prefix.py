"""Tokens of one conversation that begin another: copied bits, also while their owner goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.decode.engine import Engine
from edgedec.memory import KvType
from edgedec.sampling import DrawParams
from tests.backends.ring_models import FULL, KINDS, LONGEST, RING, Bundles, bits, bundles, feed, small, text
from tests.fixtures.opened import shared_cache

__all__ = ["bundles", "small"]  # fixtures
LIMIT_S = 60.0


def model_of(bundle: Path) -> OnnxModel:
    return OnnxModel(bundle, Manifest.load(bundle), threads=2, spin=False)


@pytest.mark.parametrize(("name", "kv"), KINDS)
def test_rings_are_copied_as_far_as_they_reach(name: str, kv: KvType, bundles: Bundles) -> None:
    """Whatever length is asked for: all of it with the bits of a prefill, or nothing."""
    batch = shared_cache(bundles(name)[0], 3, piece=LONGEST, most=3 * LONGEST, capacity=400, kv=kv)
    source, other, target = batch.forwards
    tokens, copied, refused = text(3 * RING), 0, 0
    feed(other, text(50, 4))
    neighbour = [other._kv.part(0, 1).arrays[key].tobytes() for key in other._kv.arrays]
    for end in range(0, len(tokens), LONGEST):
        source.extend(tokens[end : end + LONGEST], rows=FULL)
        for length in {1, end // 2, end, source.length}:
            held = target.copy_prefix(source, length)
            assert held == target.length == (length if source.reachable(length) == length else 0)
            copied, refused = copied + bool(held), refused + (held < length)
            if held:
                own = shared_cache(bundles(name)[0], 1, piece=LONGEST, most=LONGEST, capacity=400, kv=kv)
                feed(own.forwards[0], tokens[:held])
                for one in (own.forwards[0], target):
                    one.rewind(max(held - 2, 1))
                again = text(2 * LONGEST, 7)
                assert feed(target, again) == feed(own.forwards[0], again)
    assert copied > 10
    assert refused > 2
    assert [other._kv.part(0, 1).arrays[key].tobytes() for key in other._kv.arrays] == neighbour


@pytest.mark.parametrize("kv", ["fp16", "int8"])
@pytest.mark.parametrize("name", ["gemma3", "gemma2"])
def test_a_prefix_is_copied_while_its_owner_replies(name: str, kv: KvType, bundles: Bundles) -> None:
    """Its passes overwrite slots of rings meanwhile: what was copied then is whole, or nothing."""
    model = model_of(bundles(name)[0])
    tokens = text(380)
    expected: dict[int, bytes] = {}
    own = model.forward(CacheConfig(400, kv, LONGEST))
    for end in range(0, len(tokens)):
        own.extend([tokens[end]])
        length = own.length
        expected[length] = bits(own.extend([5], rows=FULL))
        own.rewind(length)
    with model.sequences(2, CacheConfig(400, kv, LONGEST), batch_tokens=2 * LONGEST) as batch:
        source, target = batch.forwards
        begun, ended = threading.Event(), threading.Event()

        def reply() -> None:
            with batch.reply(0):
                for number, token in enumerate(tokens):
                    source.extend([token])
                    if number == 20:
                        begun.set()
            ended.set()

        thread = threading.Thread(target=reply)
        thread.start()
        assert begun.wait(LIMIT_S)
        found = []
        while not ended.is_set():
            length = source.length
            if target.copy_prefix(source, length):
                with batch.reply(1):
                    found.append((length, bits(target.extend([5], rows=FULL))))
        thread.join(LIMIT_S)
    assert len(found) > 5
    assert all(expected[length] == rows for length, rows in found)


@pytest.mark.parametrize("first", [False, True])
def test_what_is_overwritten_meanwhile_is_not_taken(
    first: bool, bundles: Bundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner's passes come while the slots are read: before the first one, or after the last."""
    batch = shared_cache(bundles("gemma3")[0], 2, piece=LONGEST, most=2 * LONGEST, capacity=400)
    source, target = batch.forwards
    feed(source, text(60))
    copy, lengths = KvMemory.copy_rings, iter([1, RING])

    def disturbed(self: KvMemory, other: KvMemory, oldest: int, end: int) -> None:
        if not first:
            copy(self, other, oldest, end)
        feed(source, text(next(lengths)))
        if first:
            copy(self, other, oldest, end)

    monkeypatch.setattr(KvMemory, "copy_rings", disturbed)
    assert target.copy_prefix(source, 60) == 60
    assert bits(target.extend([5], rows=FULL)) == bits(_own(bundles, 60).extend([5], rows=FULL))
    assert target.copy_prefix(source, 61) == target.length == 0


def _own(bundles: Bundles, length: int) -> OnnxForward:
    forward = model_of(bundles("gemma3")[0]).forward(CacheConfig(400, "fp16", LONGEST))
    feed(forward, text(length))
    return forward


def test_a_copy_leases_no_more_than_a_prefill(bundles: Bundles) -> None:
    batch = shared_cache(bundles("gemma3")[0], 2, piece=LONGEST, most=2 * LONGEST, capacity=400)
    source, target = batch.forwards
    feed(source, text(100))
    ledger: Ledger = target.ledger
    before = ledger.most().get("kv_cache", 0)
    assert target.copy_prefix(source, 100) == 100
    assert ledger.most()["kv_cache"] == 2 * before
    target.rewind(0)
    feed(target, text(100))
    assert ledger.most()["kv_cache"] == 2 * before


def replies(engine: Engine, prompt: list[int], seed: int = 3) -> list[int]:
    params = DrawParams(temperature=0.9, seed=seed)
    return [step.token for step in engine.generate(prompt, params, max_tokens=12, stop_ids=())]


def test_an_engine_begins_with_another_ones_tokens(bundles: Bundles) -> None:
    """Only what follows the prefix is fed, and the reply is the one made alone."""
    batch = shared_cache(bundles("gemma2")[0], 2, piece=LONGEST, most=2 * LONGEST, capacity=400)
    first, second = (Engine(forward) for forward in batch.forwards)
    alone = Engine(model_of(bundles("gemma2")[0]).forward(CacheConfig(400, "fp16", LONGEST)))
    prompt = text(60)
    reply = first.generate(prompt, DrawParams(seed=1), max_tokens=8, stop_ids=())
    next(reply)
    assert second.adopt_prefix(first, 50) == 50
    assert list(second.committed) == prompt[:50]
    assert second.reusable([*prompt[:50], 1, 2]) == 50
    assert replies(second, [*prompt[:50], 1, 2]) == replies(alone, [*prompt[:50], 1, 2])
    alone.reset()
    rest = [step.token for step in reply]
    assert [*first.committed[60:61], *rest] == [
        step.token for step in alone.generate(prompt, DrawParams(seed=1), max_tokens=8, stop_ids=())
    ]
    assert second.adopt_prefix(first, 10_000) == len(first.committed) - 1
    assert second.adopt_prefix(first, 0) == len(second.committed) == 0


class _Restless(MarkovForward):
    """Lets its owner begin another text while it is copied."""

    owner: Engine

    def copy_prefix(self, source: Forward, length: int) -> int:
        held = super().copy_prefix(source, length)
        self.owner.reset()
        return held


def test_an_engine_takes_nothing_of_a_text_that_another_followed() -> None:
    first, restless = Engine(MarkovForward()), _Restless()
    restless.owner, second = first, Engine(restless)
    replies(first, [1, 2, 3])
    assert second.adopt_prefix(first, 3) == 0
    assert (len(second.committed), restless.length) == (0, 0)
    assert replies(second, [1, 2, 3]) == replies(Engine(MarkovForward()), [1, 2, 3])


class _Looked(MarkovForward):
    """While it goes back, somebody looks at what its owner has committed."""

    owner: Engine | None = None

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, list[int]]] = []

    def rewind(self, length: int) -> None:
        if self.owner:
            self.seen.append((self.owner.replies, list(self.owner.committed)))
        super().rewind(length)


def test_tokens_that_go_are_committed_no_more_once_the_number_of_replies_says_so() -> None:
    """Copies read the number, then the tokens: old ones would be taken for the new text."""
    forward = _Looked()
    engine = Engine(forward)
    replies(engine, [1, 2, 3, 4])
    before, forward.owner = engine.replies, engine
    replies(engine, [1, 2, 9])
    engine.reset()
    assert next(tokens for number, tokens in forward.seen if number > before) == [1, 2]
    assert forward.seen[-1] == (before + 2, [])


def test_random_prefixes_between_fakes() -> None:
    rng = np.random.default_rng(2)
    engines = [Engine(MarkovForward(max_pass=9)) for _ in range(3)]
    for _ in range(30):
        first, second = rng.permutation(3)[:2].tolist()
        replies(engines[first], rng.integers(0, 24, int(rng.integers(1, 40))).tolist())
        length = int(rng.integers(0, 60))
        held = engines[second].adopt_prefix(engines[first], length)
        assert held == min(length, len(engines[first].committed), engines[first].forward.length)
        prompt = [*engines[first].committed[:held], 7]
        assert replies(engines[second], prompt) == replies(Engine(MarkovForward(max_pass=9)), prompt)
