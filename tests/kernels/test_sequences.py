"""TreeAttention over several sequences at once: each as if it were alone, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from edgedec.core.errors import BackendError
from edgedec.kernels import library
from tests.fixtures.nightly import every
from tests.fixtures.op_sessions import F32, called, session_of
from tests.fuzz.op_cases import graph, tensor
from tests.kernels.attention import depths
from tests.kernels.test_tree_attention import random_tree

HEADS, KV_HEADS, DIM, LAYERS, LAYER = 6, 2, 32, 2, 1
WIDTH = (HEADS + 2 * KV_HEADS) * DIM
PART = 600
"""Slots of a part of the cache."""


@dataclass(frozen=True)
class One:
    """A sequence: ``tokens`` more in ``part``, behind ``length``."""

    tokens: int
    part: int
    length: int


MIXES = {
    "one": [One(3, 0, 5)],
    "one in the last part": [One(4, 3, 7)],
    "short ones": [One(1, 2, 40), One(3, 0, 0), One(2, 3, 17)],
    "plain decoding": [One(1, part, 30 + part) for part in range(4)],
    "a prompt among them": [One(1, 1, 90), One(128, 3, 70), One(16, 0, 33), One(1, 2, 0)],
    "long contexts": [One(1, 0, PART - 1), One(2, 1, 512), One(33, 2, 400), One(1, 3, 599)],
}


def session(int8: bool, **more: Any) -> ort.InferenceSession:
    sizes = {"layer": LAYER, "num_heads": HEADS, "num_kv_heads": KV_HEADS, "head_dim": DIM}
    row = DIM // 2 + 1 if int8 else DIM
    shapes = [
        ("f32", 1, WIDTH),
        ("f32", 1, DIM),
        ("i64", 1),
        ("i64", 1),
        ("f16", LAYERS, 2, KV_HEADS, 1, row),
    ]
    model = graph("TreeAttention", sizes | {"scale": DIM**-0.5} | more, [tensor(k, *s) for k, *s in shapes])
    return session_of(model)


def cache_of(capacity: int, int8: bool) -> NDArray[np.float16]:
    rng = np.random.default_rng(4)
    if not int8:
        shape = (LAYERS, 2, KV_HEADS, capacity, DIM)
        return rng.standard_normal(shape, dtype=np.float32).astype(np.float16)
    quants = rng.integers(-127, 128, (LAYERS, 2, KV_HEADS, capacity, DIM), dtype=np.int8)
    scales = np.full((LAYERS, 2, KV_HEADS, capacity, 1), 0.01, np.float16)
    return np.concatenate([quants.view(np.float16), scales], axis=-1)


def rotary(positions: list[int]) -> F32:
    angles = np.outer(positions, 10000.0 ** -(np.arange(DIM // 2) / (DIM // 2)))
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def run(
    made: ort.InferenceSession,
    parts: list[tuple[F32, list[int], int]],
    lengths: list[int],
    cache: NDArray[np.float16],
) -> F32:
    """Sequences (rows of qkv, parents, length) in one call, which writes ``cache``."""
    positions = [length + depth for _, parents, length in parts for depth in depths(parents)]
    values: list[NDArray[Any]] = [
        np.concatenate([qkv for qkv, _, _ in parts]),
        rotary(positions),
        np.array([parent for _, parents, _ in parts for parent in parents], np.int64),
        np.array(lengths, np.int64),
        cache,
    ]
    return called(made, *values)


def check(made: ort.InferenceSession, mix: list[One], int8: bool) -> None:
    rng = np.random.default_rng(1)
    parts = [
        (rng.standard_normal((one.tokens, WIDTH), dtype=np.float32), random_tree(i, one.tokens), one.length)
        for i, one in enumerate(mix)
    ]
    shared = cache_of(4 * PART, int8)
    alone = shared.copy()
    numbers = [4, *(n for one in mix for n in (one.tokens, one.part, one.length))]
    out = run(made, parts, numbers, shared)
    first = 0
    for one, part in zip(mix, parts, strict=True):
        slots = slice(one.part * PART, (one.part + 1) * PART)
        own = np.ascontiguousarray(alone[:, :, :, slots])
        expected = run(made, [part], [one.length], own)
        alone[:, :, :, slots] = own
        rows = slice(first, first + one.tokens)
        assert np.isfinite(expected).all()
        assert out[rows].tobytes() == expected.tobytes()
        first += one.tokens
    assert shared.tobytes() == alone.tobytes()


@pytest.mark.parametrize("row", library.available())
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("int8", [False, True])
def test_each_sequence_has_the_bits_of_a_pass_of_its_own(
    mix: str, int8: bool, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEDEC_ISA", row)
    check(session(int8), MIXES[mix], int8)


LENT = {
    "samples": [(1, 2, 300, 1, 290), (1, 0, 299, 1, 290), (1, 1, 320, 1, 0), (1, 3, 290, 1, 290)],
    "drafts": [(7, 3, 200, 0, 150), (1, 0, 170, 0, 0), (4, 1, 151, 0, 151), (9, 2, 40, 2, 0)],
    "no owner": [(2, 0, 64, 3, 33), (1, 1, 64, 3, 17), (5, 2, 17, 3, 17)],
    "two owners": [(1, 0, 90, 1, 80), (1, 1, 85, 1, 0), (1, 2, 77, 3, 60), (2, 3, 61, 3, 0)],
}
"""Tokens, part, length, lender and lent slots of each sequence."""


def check_lent(made: ort.InferenceSession, mix: list[tuple[int, int, int, int, int]], int8: bool) -> None:
    """Slots that are lent have the bits of a copy; what lies in their place is neither read nor changed."""
    rng = np.random.default_rng(2)
    parts = [
        (rng.standard_normal((tokens, WIDTH), dtype=np.float32), random_tree(i, tokens), length)
        for i, (tokens, _, length, _, _) in enumerate(mix)
    ]
    shared = cache_of(4 * PART, int8)
    before = shared.copy()
    out = run(made, parts, [-4, *(number for one in mix for number in one)], shared)
    first = 0
    for (tokens, number, length, lender, lent), part in zip(mix, parts, strict=True):
        own = before[:, :, :, number * PART : (number + 1) * PART].copy()
        own[:, :, :, :lent] = before[:, :, :, lender * PART : lender * PART + lent]
        assert run(made, [part], [length], own).tobytes() == out[first : first + tokens].tobytes()
        written = shared[:, :, :, number * PART : (number + 1) * PART]
        assert written[:, :, :, length:].tobytes() == own[:, :, :, length:].tobytes()
        old = before[:, :, :, number * PART : number * PART + length]
        assert written[:, :, :, :length].tobytes() == old.tobytes()
        first += tokens


@pytest.mark.parametrize("row", library.available())
@pytest.mark.parametrize("mix", LENT)
@pytest.mark.parametrize("int8", [False, True])
def test_slots_that_are_lent_have_the_bits_of_a_copy(
    mix: str, int8: bool, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEDEC_ISA", row)
    check_lent(session(int8), LENT[mix], int8)
    check_lent(session(int8, window=30, softcap=20.0), LENT[mix], int8)


def drawn_mix(seed: int) -> list[tuple[int, int, int, int, int]]:
    """Sequences in parts of their own, most of which begin with slots that one of them lends."""
    rng = np.random.default_rng(seed)
    parts = rng.permutation(4)[: int(rng.integers(1, 5))].tolist()
    lender, lent = int(rng.integers(4)), int(rng.integers(0, 200))
    mix = []
    for part in parts:
        own = part == lender or rng.random() < 0.2
        length = int(rng.integers(0, 300)) if own else lent + int(rng.integers(0, 80))
        mix.append((int(rng.integers(1, 12)), part, length, lender, 0 if own else lent))
    return [one if one[1] != lender else (one[0], one[1], max(one[2], lent), lender, 0) for one in mix]


@pytest.mark.parametrize("part", every(20, range(20)))
def test_every_row_has_the_same_bits_over_int8_slots_that_are_lent(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for row in library.available():
        monkeypatch.setenv("EDGEDEC_ISA", row)
        made.append(session(True))
    for seed in range(50 * part, 50 * (part + 1)):
        rng, mix = np.random.default_rng(seed), drawn_mix(seed)
        parts = [
            (rng.standard_normal((tokens, WIDTH), dtype=np.float32), random_tree(i, tokens), length)
            for i, (tokens, _, length, _, _) in enumerate(mix)
        ]
        found = set()
        for one in made:
            cache = cache_of(4 * PART, True)
            out = run(one, parts, [-4, *(number for each in mix for number in each)], cache)
            assert np.isfinite(out).all()
            found.add((out.tobytes(), cache.tobytes()))
        assert len(found) == 1, seed


def test_a_ring_is_not_lent() -> None:
    """Each sequence has its own, whatever is lent of other layers."""
    made, qkv = session(False, window=70, ring=1), np.ones((3, WIDTH), np.float32)
    found = []
    for numbers in ([-4, 3, 0, 5, 1, 2], [4, 3, 0, 5]):
        cache = cache_of(4 * PART, False)
        found.append((run(made, [(qkv, [-1, 0, 1], 5)], numbers, cache).tobytes(), cache.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("window", [5, 64])
def test_windows_are_those_of_each_sequence(window: int) -> None:
    for mix in MIXES.values():
        check(session(False, window=window, softcap=20.0), mix, False)


@pytest.mark.parametrize("int8", [False, True])
def test_each_part_of_a_ring_is_a_ring_of_its_own(int8: bool) -> None:
    """Long after all of them have gone round."""
    mix = [One(3, 2, 1700), One(128, 0, 5003), One(1, 1, PART), One(20, 3, 2 * PART - 4)]
    check(session(int8, window=70, ring=1), mix, int8)


BIG = 2**62
WRONG = [
    ([4, 3], "length must have"),
    ([4, 3, 0], "length must have"),
    ([-1], "negative length"),
    ([8 * PART], "cache is too small"),
    ([0, 3, 0, 0], "parts must share"),
    ([-4, 3, 0, 0], "length must have"),
    ([-BIG, 3, 0, 0, 0, 0], "parts must share"),
    ([-4, 3, 0, 5, 4, 2], "lent by a part"),
    ([-4, 3, 0, 5, -1, 2], "lent by a part"),
    ([-4, 3, 0, 5, 1, -1], "lent by a part"),
    ([-4, 3, 0, 5, 1, 6], "lent by a part"),
    ([-4, 3, 0, BIG, 1, BIG], "more slots are lent"),
    ([-4, 2, 0, 5, 1, 3, 1, 0, 5, 1, 3], "in one part"),
    ([7, 3, 0, 0], "parts must share"),
    ([BIG, 3, 0, 0], "parts must share"),
    ([4, 2, 0, 0], "as many as the pass"),
    ([4, 4, 0, 0], "as many as the pass"),
    ([4, BIG, 0, 0], "as many as the pass"),
    ([4, -1, 0, 0, 4, 1, 0], "as many as the pass"),
    ([4, 3, 0, 0, 0, 1, 0], "as many as the pass"),
    ([4, 2, 1, 0, 1, 1, 0], "in one part"),
    ([4, 3, 4, 0], "does not exist"),
    ([4, 3, -1, 0], "does not exist"),
    ([4, 3, BIG, 0], "does not exist"),
    ([4, 3, 1, -1], "negative length"),
    ([4, 3, 1, PART - 2], "cache is too small"),
    ([4, 3, 3, BIG], "cache is too small"),
    ([1, 1, 0, 0, 2, 0, 0], "more sequences than parts"),
]


@pytest.mark.parametrize(("numbers", "what"), WRONG)
def test_hostile_lengths_are_refused_in_one_line(numbers: list[int], what: str) -> None:
    cache = cache_of(4 * PART, False)
    before = cache.tobytes()
    qkv = np.ones((3, WIDTH), np.float32)
    with pytest.raises(BackendError, match=what) as refused:
        run(session(False), [(qkv, [-1, 0, 1], 0)], numbers, cache)
    assert "\n" not in refused.value.message
    assert cache.tobytes() == before


def test_parents_reach_no_other_sequence() -> None:
    """They count from the sequence's own first token."""
    qkv = np.ones((3, WIDTH), np.float32)
    with pytest.raises(BackendError, match="parents"):
        run(session(False), [(qkv, [-1, -1, 1], 0)], [4, 1, 0, 0, 2, 1, 0], cache_of(4 * PART, False))
