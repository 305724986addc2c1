"""Several conversations in one cache: passes of all give each the bits that it has alone."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgedec.backends.backend import PassRequest as Request
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.backends.onnx.sequences import Sequences
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import ContextFullError
from edgedec.core.rows import ALL_ROWS, LAST_ROW, HeadRows, Rows
from edgedec.memory import KvType
from tests.fixtures.opened import onnx_forward, shared_cache

Bundles = Callable[[str], Path]
TREE = Request(1, [7, 9, 7, 13, 2], [-1, -1, 0, 0, 2], ALL_ROWS)


def opened(bundle: Path, capacity: int = 64, kv: KvType = "fp16") -> OnnxForward:
    return onnx_forward(bundle, Manifest.load(bundle), threads=2, capacity=capacity, spin=False, kv=kv)


def sequences(bundle: Path, count: int = 4, kv: KvType = "fp16") -> Sequences:
    return shared_cache(bundle, count, piece=40, most=100, kv=kv)


def same(a: HeadRows, b: HeadRows) -> bool:
    assert not len(a) or (a.logits is None) == (b.logits is None)
    pairs = [(a.values, b.values), (a.ids, b.ids), (a.logsumexp, b.logsumexp), (a.entropy, b.entropy)]
    if a.logits is not None and b.logits is not None:
        pairs.append((a.logits, b.logits))
    warm = not len(a) or a.temperature == b.temperature
    return warm and all(x.tobytes() == y.tobytes() for x, y in pairs)


def words(seed: int, count: int) -> list[int]:
    return [int(n) for n in np.random.default_rng(seed).integers(0, 60, count)]


@pytest.mark.parametrize(("kind", "kv"), [("llama", "fp16"), ("gemma3", "fp16"), ("llama", "int8")])
def test_a_pass_of_all_gives_each_what_it_gets_alone(tiny_bundle: Bundles, kind: str, kv: KvType) -> None:
    bundle = tiny_bundle(kind)
    together = sequences(bundle, kv=kv)
    alone = [opened(bundle, kv=kv) for _ in range(4)]
    rounds = [
        [Request(3, words(3, 40), rows=Rows(())), Request(0, words(0, 5)), Request(1, words(1, 17))],
        [Request(2, words(2, 9)), Request(1, TREE.tokens, TREE.parents, TREE.rows), Request(3, [5])],
        [Request(number, [number + 1]) for number in range(4)],
        [Request(number, words(number, 2 + number), rows=Rows((0, 1))) for number in (2, 0, 3, 1)],
    ]
    for number, requests in enumerate(rounds):
        found = together.run(requests)
        for request, rows in zip(requests, found, strict=True):
            one = alone[request.sequence]
            assert same(rows, one.extend(request.tokens, parents=request.parents, rows=request.rows))
            assert together.forwards[request.sequence].length == one.length
        if number == 1:
            for one in (alone[1], together.forwards[1]):
                one.keep_path([0, 2, 4])
            for one in (alone[0], together.forwards[0]):
                one.rewind(3)


@pytest.mark.parametrize("full", [False, True])
def test_whole_rows_and_temperatures_are_those_that_each_asked_for(tiny_bundle: Bundles, full: bool) -> None:
    bundle = tiny_bundle("llama")
    wants = [Rows(last=True, temperature=0.5), Rows(full=full), LAST_ROW, Rows(()), Rows((1,), full=True)]
    requests = [Request(number, words(number, 6), rows=rows) for number, rows in enumerate(wants)]
    for request, rows in zip(requests, sequences(bundle, 5).run(requests), strict=True):
        assert same(rows, opened(bundle).extend(request.tokens, rows=request.rows))


def test_a_wrong_request_changes_nothing(tiny_bundle: Bundles) -> None:
    together = sequences(tiny_bundle("llama"))
    good, second = Request(0, [1, 2]), together.forwards[1]
    second.extend(words(1, 40))
    second.extend(words(2, 23))
    for wrong, error in [
        (Request(1, [1, 2]), ContextFullError),
        (Request(1, [1], rows=Rows((1,))), ValueError),
        (Request(1, [10_000]), ValueError),
        (Request(1, [1], [0]), ValueError),
        (Request(1, []), ValueError),
        (Request(2, [1] * 41), ValueError),
        (Request(0, [3]), ValueError),
    ]:
        with pytest.raises(error):
            together.run([good, wrong])
        assert [forward.length for forward in together.forwards] == [0, 63, 0, 0]
    for wrong in (Request(1, [1, 2]), Request(2, [1] * 41)):
        with pytest.raises((ContextFullError, ValueError)):
            together.check(wrong)
    with pytest.raises(ValueError, match="at most 100"):
        together.run([Request(number, [1] * 34) for number in (0, 2, 3)])
    assert len(together.run([good])) == 1


def test_what_a_sequence_gives_back_is_its_own(tiny_bundle: Bundles) -> None:
    """So much that it goes back to the operating system; the neighbours keep every slot."""
    together = shared_cache(tiny_bundle("llama"), 3, piece=128, most=256, capacity=256)
    for number in range(3):
        for seed in (1, 2):
            together.run([Request(number, words(seed + number, 100))])
    kept = []
    for neighbour in (0, 2):
        together.forwards[neighbour].write_cache(sink := io.BytesIO(), 200)
        kept.append(sink.getvalue())
    middle = together.forwards[1]
    middle._kv.release(0, 1 << 20)  # as if it had been a long one
    middle.rewind(0)
    for neighbour, before in zip((0, 2), kept, strict=True):
        together.forwards[neighbour].write_cache(sink := io.BytesIO(), 200)
        assert sink.getvalue() == before
    again = middle.extend(words(2, 100))
    assert same(again, opened(tiny_bundle("llama"), capacity=256).extend(words(2, 100)))


def test_a_cache_can_move_between_sequences(tiny_bundle: Bundles) -> None:
    together = sequences(tiny_bundle("llama"))
    first, third = together.forwards[0], together.forwards[3]
    first.extend(words(1, 20))
    first.write_cache(sink := io.BytesIO(), 20)
    sink.seek(0)
    third.read_cache(sink, 20)
    assert first.cache_layout == opened(tiny_bundle("llama")).cache_layout
    assert same(*together.run([Request(0, [5]), Request(3, [5])]))
