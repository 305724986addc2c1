"""Tokens that leave the cache of a real graph: what stays keeps keys, values and positions, bit for bit."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.backends.onnx.forward import OnnxForward
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.core.rows import Rows
from edgedec.eviction.sliding import Sliding
from edgedec.export import export_gguf
from edgedec.memory import KvType
from tests.backends.test_contract import PARENTS, TREE
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

FULL = Rows(full=True)
SINKS, GONE, KEPT = [5, 17, 3], [3, 42, 8, 5, 61], [29, 11, 90, 4, 7, 7]
ALL = [*SINKS, *GONE, *KEPT]


def rows_of(forward: OnnxForward, start: int, stop: int) -> NDArray[np.float16]:
    return forward._kv.arrays["kv_cache"][:, :, :, start:stop].copy()


@pytest.fixture(params=["fp16", "int8"])
def kv(request: pytest.FixtureRequest) -> KvType:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def make(tiny_bundle: Callable[[str], Path], kv: KvType) -> Callable[[int], OnnxForward]:
    bundle = tiny_bundle("llama")
    manifest = Manifest.load(bundle)
    return lambda capacity: onnx_forward(bundle, manifest, threads=2, capacity=capacity, kv=kv)


def test_what_stays_moves_as_it_is(make: Callable[[int], OnnxForward]) -> None:
    forward = make(20)
    assert forward.evicting is forward
    forward.extend(ALL)
    before = rows_of(forward, 0, 14)
    forward.evict(3, 5)
    assert (forward.length, forward.evicted, forward.capacity) == (14, range(3, 8), 20)
    after = rows_of(forward, 0, 9)
    assert after.tobytes() == np.concatenate([before[:, :, :, :3], before[:, :, :, 8:]], axis=3).tobytes()
    forward.evict(3, 2)
    assert forward.evicted == range(3, 10)
    kept = np.concatenate([before[:, :, :, :3], before[:, :, :, 10:]], axis=3)
    assert rows_of(forward, 0, 7).tobytes() == kept.tobytes()
    forward.extend([1] * 13)
    assert (forward.length, rows_of(forward, 0, 7).tobytes()) == (27, kept.tobytes())


def choice(forward: OnnxForward, first: int, end: int, count: int, seed: int = 0) -> NDArray[np.intp]:
    """For each head other slots of [first, end)."""
    spec, random = forward.spec, np.random.default_rng(seed)
    found = np.empty((spec.n_layers, spec.n_kv_heads, count), dtype=np.intp)
    for head in np.ndindex(found.shape[:2]):
        found[head] = np.sort(random.permutation(np.arange(first, end))[:count])
    return found


def test_every_head_keeps_its_own(make: Callable[[int], OnnxForward]) -> None:
    forward = make(20)
    assert forward.attending is forward
    forward.extend(ALL)
    for first, end, length, seed in ((3, 11, 14, 0), (3, 10, 16, 1)):
        if length > forward.length:
            forward.extend([1] * (length - forward.length))
        slots = forward.resident
        before, kept = rows_of(forward, 0, slots), choice(forward, first, end, 3, seed)
        assert len(np.unique(kept.reshape(-1, 3), axis=0)) > 1
        forward.select(first, end, kept)
        assert (forward.length, forward.resident) == (length, slots - (end - first - 3))
        after = rows_of(forward, 0, forward.resident)
        for layer, part, head in np.ndindex(before.shape[:3]):
            stay = [*range(first), *kept[layer, head].tolist(), *range(end, slots)]
            assert after[layer, part, head].tobytes() == before[layer, part, head, stay].tobytes()
    assert forward.evicted == range(3, 15)


def test_what_is_left_to_each_head_is_what_it_sees(tmp_path: Path, kv: KvType) -> None:
    """In a model of one layer, choosing the same tokens for all heads is as if the others had not been."""
    export_gguf(write_tiny(tmp_path / "tiny.gguf", shape=TinyShape(layers=1)), tmp_path / "bundle")
    manifest = Manifest.load(tmp_path / "bundle")

    def answer(tokens: list[int], own: bool = False) -> bytes:
        forward = onnx_forward(tmp_path / "bundle", manifest, threads=1, capacity=32, kv=kv)
        forward.extend(tokens)
        kept = choice(forward, 3, 9, 3, seed=5)
        if not own:
            kept[:] = [3, 5, 8]
        forward.select(3, 9, kept)
        head = forward.extend([21, 22], rows=FULL)
        assert head.logits is not None
        return head.logits.tobytes()

    expected = answer(ALL)
    assert answer([*ALL[:4], 77, *ALL[5:6], 78, 79, *ALL[8:]]) == expected
    assert answer(ALL, own=True) != expected


def test_what_cannot_be_selected(make: Callable[[int], OnnxForward]) -> None:
    forward = make(20)
    forward.extend(ALL)
    good = choice(forward, 3, 9, 3)
    before = rows_of(forward, 0, 14).tobytes()
    for first, end, kept in (
        (4, 9, np.where(good == good.min(), 3, good)), (3, 8, np.maximum(good, [0, 0, 8])),
        (3, 9, good[:, :, ::-1]), (3, 9, np.repeat(good[:, :, :1], 3, axis=2)), (3, 9, good[1:]),
        (3, 15, good), (3, 6, choice(forward, 3, 6, 3)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"slots"):
            forward.select(first, end, kept)
    assert (forward.length, forward.resident, rows_of(forward, 0, 14).tobytes()) == (14, 14, before)


def test_looking_and_going_back_leaves_the_same_bits(make: Callable[[int], OnnxForward]) -> None:
    """The window's tokens were fed after what left before did: fed again, they are what they were."""
    forward = make(32)
    forward.extend(ALL)
    forward.select(3, 9, choice(forward, 3, 9, 3))
    forward.extend([33, 34])
    forward.extend([35], rows=FULL)
    before = rows_of(forward, 0, forward.resident).tobytes()
    forward.rewind(14)
    weights = forward.attention([33, 34, 35, 70, 71])
    assert weights.shape == (forward.spec.n_layers, forward.spec.n_kv_heads, 16)
    forward.rewind(17)
    assert rows_of(forward, 0, forward.resident).tobytes() == before


def test_a_new_token_is_written_at_its_own_position(make: Callable[[int], OnnxForward], kv: KvType) -> None:
    """Keys of the first layer depend on token and position alone."""
    whole, sliding = make(32), make(14)
    whole.extend([*ALL, 21])
    sliding.extend(ALL)
    sliding.evict(3, 5)
    sliding.extend([21])
    expected, found = rows_of(whole, 14, 15)[0], rows_of(sliding, 9, 10)[0]
    assert found.tobytes() == expected.tobytes()
    assert rows_of(whole, 14, 15)[1].tobytes() != rows_of(sliding, 9, 10)[1].tobytes()  # it saw less


def test_in_one_layer_nothing_is_left_of_what_has_left(tmp_path: Path, kv: KvType) -> None:
    """In a model of one layer, keys and values do not depend on what was before them."""
    export_gguf(write_tiny(tmp_path / "tiny.gguf", shape=TinyShape(layers=1)), tmp_path / "bundle")
    manifest = Manifest.load(tmp_path / "bundle")

    def answer(tokens: list[int], *, evicts: bool = True) -> bytes:
        forward = onnx_forward(tmp_path / "bundle", manifest, threads=1, capacity=32, kv=kv)
        forward.extend(tokens)
        if evicts:
            forward.evict(3, 5)
        head = forward.extend([21, 22, 23], rows=FULL)
        assert head.logits is not None
        return head.logits.tobytes()

    expected = answer(ALL)
    assert answer([*SINKS, 9, 9, 80, 1, 2, *KEPT]) == expected
    assert answer(ALL, evicts=False) != expected
    for at in (0, 2, 8, 13):  # the sinks and the window count, every token of them
        assert answer([*ALL[:at], ALL[at] + 1, *ALL[at + 1 :]]) != expected


def test_passes_behind_a_gap_are_the_same_bits_however_they_are_cut(
    make: Callable[[int], OnnxForward],
) -> None:
    def slid() -> OnnxForward:
        forward = make(32)
        forward.extend(ALL)
        forward.evict(3, 5)
        return forward

    path = [0, 2, 4, 6]
    plain, alone = slid(), []
    for node in path:
        head = plain.extend([TREE[node]], rows=FULL)
        assert head.logits is not None
        alone.append(head.logits[0].tobytes())
    tree = slid()
    rows = tree.extend(TREE, parents=PARENTS, rows=FULL)
    assert rows.logits is not None
    assert [rows.logits[node].tobytes() for node in path] == alone
    with pytest.raises(ValueError, match="evict"):
        tree.evict(3, 1)
    tree.keep_path(path)
    assert (tree.length, tree.evicted) == (18, range(3, 8))
    chained = slid()
    chained.extend([TREE[node] for node in path])
    nexts = [forward.extend([50], rows=FULL).logits for forward in (plain, tree, chained)]
    assert nexts[0] is not None
    assert all(logits is not None and logits.tobytes() == nexts[0].tobytes() for logits in nexts)


def test_the_way_back(make: Callable[[int], OnnxForward]) -> None:
    forward = make(32)
    forward.extend(ALL)
    forward.evict(3, 5)
    first = forward.extend([21, 22], rows=FULL)
    forward.rewind(14)
    again = forward.extend([21, 22], rows=FULL)
    assert first.values.tobytes() == again.values.tobytes()
    for wrong in (4, 7, 17):
        with pytest.raises(ValueError, match="rewind"):
            forward.rewind(wrong)
    with pytest.raises(ValueError, match="write"):
        forward.write_cache(io.BytesIO(), 3)
    forward.rewind(8)
    assert forward.evicted == range(3, 8)
    forward.rewind(3)
    assert (forward.length, forward.evicted) == (3, range(0))
    fresh = make(32)
    fresh.extend(SINKS)
    exact = [one.extend(GONE, rows=FULL).values.tobytes() for one in (forward, fresh)]
    assert exact[0] == exact[1]


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (3, 0), (3, 12), (15, 1)])
def test_what_cannot_be_evicted(make: Callable[[int], OnnxForward], first: int, count: int) -> None:
    forward = make(32)
    forward.extend(ALL)
    with pytest.raises(ValueError, match="cannot evict"):
        forward.evict(first, count)
    forward.evict(3, 2)
    with pytest.raises(ValueError, match="were evicted from 3"):
        forward.evict(4, 2)
    assert (forward.length, forward.evicted) == (14, range(3, 5))


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3", "phi3"])
def test_layers_with_a_window_of_their_own_are_refused(
    tiny_bundle: Callable[[str], Path], architecture: str
) -> None:
    bundle = tiny_bundle(architecture)
    with pytest.raises(UnsupportedError, match="a window of their own"):
        Sliding(onnx_forward(bundle, Manifest.load(bundle), threads=1, capacity=16))
