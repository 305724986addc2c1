"""Rings of several conversations side by side, and in files."""

from __future__ import annotations

import io

import numpy as np
import pytest

from edgedec.backends.backend import PassRequest
from edgedec.core.errors import BadFileError
from edgedec.memory import KvType
from tests.backends.ring_models import (
    FULL,
    KINDS,
    LONGEST,
    RING,
    SLACK,
    WINDOW,
    Bundles,
    bits,
    both,
    bundles,
    feed,
    opened,
    small,
    text,
)
from tests.fixtures.opened import shared_cache

__all__ = ["bundles", "small"]  # fixtures


@pytest.mark.parametrize(("name", "kv"), KINDS)
def test_a_cache_read_is_a_cache_computed(name: str, kv: KvType, bundles: Bundles) -> None:
    """Into rings of another size, of the newest slots and no more."""
    first, second = opened(bundles(name)[0], kv), opened(bundles(name)[0], kv, 200, 3)
    second.extend([1, 2, 3])
    tokens = text(110)
    feed(first, tokens)
    sink = io.BytesIO()
    first.write_cache(sink, 108)
    assert first.cache_layout == second.cache_layout
    assert len(sink.getvalue()) == first.cache_bytes(108) == second.cache_bytes(108)
    slot = first.cache_bytes(2) - first.cache_bytes(1)
    windowed = slot * first.spec.n_window_layers // first.spec.n_layers
    assert len(sink.getvalue()) == 8 + (slot - windowed) * 108 + windowed * (WINDOW + SLACK)
    sink.seek(0)
    second.read_cache(sink, 108)
    assert second.length == second.reachable(108) == 108
    oldest = 108 - WINDOW - SLACK
    assert [second.reachable(at) for at in (oldest + WINDOW - 1, oldest + WINDOW - 2)] == [108 - SLACK - 1, 0]
    for length in (108, 108 - SLACK - 1):
        for forward in (first, second):
            forward.rewind(length)
        assert bits(first.extend([8, 9], rows=FULL)) == bits(second.extend([8, 9], rows=FULL))


def test_a_saved_cache_knows_which_of_its_slots_were_gone(bundles: Bundles) -> None:
    first, second = opened(bundles("gemma3")[0]), opened(bundles("gemma3")[0])
    feed(first, text(100))
    floor = 100 - RING + WINDOW - 1
    first.rewind(floor + 1)
    sink = io.BytesIO()
    with pytest.raises(ValueError, match="cannot write"):
        first.write_cache(sink, floor - 1)
    first.write_cache(sink, floor + 1)
    saved = sink.getvalue()
    second.read_cache(io.BytesIO(saved), floor + 1)
    assert [second.reachable(length) for length in (floor + 1, floor, floor - 1)] == [floor + 1, floor, 0]
    assert bits(second.extend([4], rows=FULL)) == bits(first.extend([4], rows=FULL))
    at = (floor + 1) * 2 * 2 * 16 * 2  # behind the one layer that sees all
    for oldest in (0, floor - WINDOW + 3, floor + 1, floor + 2, 1 << 63):
        damaged = saved[:at] + oldest.to_bytes(8, "little") + saved[at + 8 :]
        with pytest.raises(BadFileError, match="saved cache"):
            second.read_cache(io.BytesIO(damaged), floor + 1)
        assert second.length == 0
    with pytest.raises(EOFError):
        second.read_cache(io.BytesIO(saved[:-1]), floor + 1)


def test_a_short_cache_needs_no_ring(bundles: Bundles) -> None:
    first, second = opened(bundles("gemma2")[0]), opened(bundles("gemma2")[0], capacity=7)
    first.extend([1, 2, 3])
    for length in (0, 3):
        sink = io.BytesIO()
        first.write_cache(sink, length)
        assert len(sink.getvalue()) == first.cache_bytes(length)
        sink.seek(0)
        second.read_cache(sink, length)
        assert second.length == length
    assert bits(first.extend([8], rows=FULL)) == bits(second.extend([8], rows=FULL))


def test_files_of_whole_caches_are_another_kind(bundles: Bundles) -> None:
    ring, whole = both(bundles, "gemma3")
    assert whole.cache_layout == "fp16 7x2x2x32"
    assert ring.cache_layout == f"fp16 1x2x2x32 6x2x2x32x{WINDOW + SLACK}"


@pytest.mark.parametrize(("name", "kv"), KINDS)
def test_conversations_side_by_side_have_rings_of_their_own(name: str, kv: KvType, bundles: Bundles) -> None:
    """Chains, trees and ways back, in passes of all three: each has the bits of a whole cache of its own."""
    rng = np.random.default_rng(3)
    with_rings, without_rings = bundles(name)
    batch = shared_cache(with_rings, 3, piece=LONGEST, most=3 * LONGEST, capacity=400, kv=kv)
    alone = [opened(without_rings, kv) for _ in batch.forwards]
    for _ in range(40):
        requests = []
        for number in rng.permutation(3)[: rng.integers(1, 4)].tolist():
            size = int(rng.integers(1, LONGEST + 1))
            parents = [int(rng.integers(-1, i)) for i in range(size)]
            requests.append(PassRequest(number, text(size, int(rng.integers(1 << 30))), parents, FULL))
        for request, rows in zip(requests, batch.run(requests), strict=True):
            one = alone[request.sequence]
            assert bits(rows) == bits(one.extend(request.tokens, parents=request.parents, rows=FULL))
            for forward in (one, batch.forwards[request.sequence]):
                forward.keep_path([0])
                forward.rewind(forward.length - int(request.tokens[0] % 5 == 0))
        for forward in batch.forwards:
            for token in text(3, forward.length):
                assert bits(forward.extend([token], rows=FULL)) == bits(
                    alone[forward.number].extend([token], rows=FULL)
                )
    assert min(forward.length for forward in batch.forwards) > 5 * RING
    sink = io.BytesIO()
    batch.forwards[0].write_cache(sink, batch.forwards[0].length)
    sink.seek(0)
    batch.forwards[2].read_cache(sink, batch.forwards[0].length)
    assert bits(batch.forwards[2].extend([7], rows=FULL)) == bits(alone[0].extend([7], rows=FULL))
    expected = alone[1].extend([7], rows=FULL)
    assert bits(batch.forwards[1].extend([7], rows=FULL)) == bits(expected)
    assert batch.forwards[0].nbytes()["kv_cache"] == opened(with_rings, kv).nbytes()["kv_cache"]
