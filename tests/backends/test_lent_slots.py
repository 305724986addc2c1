"""Sequences of one cache that begin alike: their beginning stands once, and every bit is that of a copy."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.backend import PassRequest
from edgedec.backends.onnx.lending import LendingForward
from edgedec.backends.onnx.model import OnnxModel
from edgedec.backends.onnx.sequences import Sequences
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.decode.engine import Engine
from edgedec.export import export_gguf
from edgedec.memory import KvType
from edgedec.sampling import DrawParams
from edgedec.session.shared_prefix import SharedPrefixes
from tests.backends.ring_models import FULL, LONGEST, bits, small, text
from tests.fixtures.opened import onnx_forward, shared_cache
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.patience import PATIENCE_S

__all__ = ["small"]  # a fixture
CAPACITY, COUNT = 160, 4
SHAPES = {
    "llama": TinyShape(),
    "gemma3": TinyShape(layers=7, window=8),
    "gemma2": TinyShape(window=8),
    "qwen35": TinyShape(layers=5, delta=DeltaShape()),
}


@pytest.fixture(scope="module", params=SHAPES)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lent")
    export_gguf(write_tiny(folder / "tiny.gguf", request.param, shape=SHAPES[request.param]), folder / "tiny")
    return folder / "tiny"


class Histories:
    """Sequences over one cache, and the same ones each in a cache of its own."""

    def __init__(self, bundle: Path, kv: KvType, seed: int) -> None:
        self.batch: Sequences = shared_cache(
            bundle, COUNT, piece=LONGEST, most=COUNT * LONGEST, capacity=CAPACITY, kv=kv
        )
        self.alone = [onnx_forward(bundle, threads=2, capacity=CAPACITY, kv=kv) for _ in range(COUNT)]
        self.tokens: list[list[int]] = [[] for _ in range(COUNT)]
        self.rng = np.random.default_rng(seed)
        self.borrowed = 0

    @property
    def forwards(self) -> Sequence[LendingForward]:
        return self.batch.forwards

    def feed(self, which: Sequence[int]) -> None:
        """One pass over several sequences, each with a few tokens."""
        requests = []
        for number in which:
            more = text(int(self.rng.integers(1, LONGEST + 1)), int(self.rng.integers(1 << 30)))
            requests.append(PassRequest(number, more, None, FULL))
        for request, rows in zip(requests, self.batch.run(requests), strict=True):
            alone = self.alone[request.sequence]
            held = self.tokens[request.sequence]
            alone.rewind(alone.length if alone.length == len(held) else 0)
            while alone.length < len(held):
                alone.extend(held[alone.length : alone.length + LONGEST])
            assert bits(rows) == bits(alone.extend(request.tokens, rows=FULL))
            held += request.tokens

    def copy(self, target: int, source: int) -> None:
        length = int(self.rng.integers(0, self.forwards[source].length + 1))
        held = self.forwards[target].copy_prefix(self.forwards[source], length)
        self.tokens[target] = self.tokens[source][:held]
        self.alone[target].rewind(0)
        self.borrowed += self.forwards[target].borrowed > 0

    def rewind(self, number: int) -> None:
        forward = self.forwards[number]
        forward.rewind(int(self.rng.integers(0, forward.length + 1)))
        del self.tokens[number][forward.length :]
        self.alone[number].rewind(0)

    def written(self, number: int) -> None:
        """A file has the bytes that a cache of its own would write."""
        forward, sinks = self.forwards[number], []
        if not (length := forward.length) or forward.reachable(length) != length:
            return
        for one in (forward, self.alone[number]):
            if one.length == length:
                sinks.append(io.BytesIO())
                one._kv.write_page(sinks[-1], 0, length)
        assert len({sink.getvalue() for sink in sinks}) == 1

    def step(self) -> None:
        number, other = (int(one) for one in self.rng.choice(COUNT, 2, replace=False))
        draw = self.rng.random()
        if draw < 0.25:
            self.copy(number, other)
        elif draw < 0.4 or any(forward.length > CAPACITY - LONGEST for forward in self.forwards):
            self.rewind(max(range(COUNT), key=lambda at: len(self.tokens[at])) if draw >= 0.4 else number)
        elif draw < 0.5:
            self.written(number)
        else:
            count = int(self.rng.integers(1, COUNT + 1))
            self.feed([int(one) for one in self.rng.choice(COUNT, count, replace=False)])


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_random_histories(kv: KvType, bundle: Path) -> None:
    histories = Histories(bundle, kv, 5)
    for _ in range(150):
        histories.step()
        lenders = {one.number: one._borrowers for one in histories.forwards}
        for one in histories.forwards:
            assert one.borrowed <= one.length
            assert (one.begins_in != one.number) == (one.borrowed > 0)
            if one.borrowed:
                assert one in lenders[one.begins_in]
                assert histories.forwards[one.begins_in].length >= one.borrowed
                assert not histories.forwards[one.begins_in].borrowed
        assert sum(map(len, lenders.values())) == sum(one.borrowed > 0 for one in histories.forwards)
    assert histories.borrowed > 10


def test_a_beginning_stands_once(bundle: Path) -> None:
    """The slots in the place of those that are borrowed are never written."""
    histories = Histories(bundle, "fp16", 1)
    source = histories.forwards[0]
    tokens = text(40)
    for at in range(0, 40, LONGEST):
        source.extend(tokens[at : at + LONGEST])
    for target in histories.forwards[1:]:
        assert target.copy_prefix(source, 40) == 40
        own = target._kv.arrays["kv_cache"]
        assert not own[:, :, :, :40].any()
        target.extend([7])
        assert not own[:, :, :, :40].any()
        assert own[:, :, :, 40].any()


def test_the_owner_may_go_on_with_something_else(bundle: Path) -> None:
    """One of the borrowers takes a copy then, and the others borrow from it."""
    histories = Histories(bundle, "fp16", 2)
    owner, *others = histories.forwards
    for at in range(0, 40, LONGEST):
        owner.extend(text(40)[at : at + LONGEST])
    for other in others:
        other.copy_prefix(owner, 40)
    before = [bytes(_written(other)) for other in others]
    owner.rewind(0)
    owner.extend(text(LONGEST, 9))
    assert [bytes(_written(other)) for other in others] == before
    heirs = {other.begins_in for other in others}
    assert len(heirs) == 1
    assert 0 not in heirs


def _written(forward: LendingForward) -> bytes:
    sink = io.BytesIO()
    forward._kv.write_page(sink, 0, forward.length)
    return sink.getvalue()


def test_conversations_in_threads_of_their_own_borrow_and_lend(bundle: Path) -> None:
    """Owners begin other conversations while passes read what others borrowed from them."""
    model = OnnxModel(bundle, Manifest.load(bundle), threads=2, spin=False)
    rng = np.random.default_rng(8)
    prompts = [
        text(int(rng.integers(20, 90)), int(seed)) + text(9, 50 + at)
        for at, seed in enumerate([1, 1, 1, 2, 2, 3])
    ]
    alone = Engine(model.forward(CacheConfig(CAPACITY, "fp16", LONGEST)))
    expected = [replied(alone, prompt) for prompt in prompts]
    wrong, borrowed = list[object](), list[int]()
    with model.sequences(
        COUNT, CacheConfig(CAPACITY, "fp16", LONGEST), batch_tokens=COUNT * LONGEST
    ) as batch:
        engines = [Engine(forward) for forward in batch.forwards]
        shared = SharedPrefixes(engines)

        def talk(number: int) -> None:
            own = random.Random(number)
            try:
                for _ in range(14):
                    which = own.randrange(len(prompts))
                    shared.copy_to(number, prompts[which])
                    borrowed.append(batch.forwards[number].borrowed)  # type: ignore[attr-defined]
                    with batch.reply(number):
                        assert replied(engines[number], prompts[which]) == expected[which]
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=talk, args=(number,), daemon=True) for number in range(COUNT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)
    assert not wrong
    assert sum(map(bool, borrowed)) > 5


def replied(engine: Engine, prompt: list[int]) -> list[int]:
    return [step.token for step in engine.generate(prompt, DrawParams(), max_tokens=8, stop_ids=())]
