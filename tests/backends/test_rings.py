"""Layers with a window in rings: the bits of the whole cache after any history, and what cannot be gone back
to."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.onnx import kv_memory
from edgedec.backends.onnx.passes import BoundPass
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError
from edgedec.core.rows import HeadRows
from edgedec.decode.engine import Engine, PassRecord
from edgedec.memory import KvType, sizes
from edgedec.sampling import DrawParams
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
    compare_histories,
    feed,
    opened,
    replies,
    small,
    text,
)
from tests.fixtures.opened import onnx_forward

__all__ = ["bundles", "small"]  # fixtures


def test_manifest_and_ring_say_how_large_they_are(bundles: Bundles) -> None:
    forward = opened(bundles("gemma3")[0])
    assert (forward.spec.n_layers, forward.spec.n_window_layers, forward.spec.window) == (7, 6, WINDOW)
    arrays = forward._kv.arrays
    assert arrays["kv_cache"].shape == (1, 2, 2, 400, 16)
    assert arrays["kv_window"].shape == (6, 2, 2, RING, 16)
    assert forward.nbytes()["kv_cache"] == sum(array.nbytes for array in arrays.values())
    shorter = opened(bundles("gemma3")[0], capacity=400, max_pass=4)
    assert shorter._kv.arrays["kv_window"].shape[3] == RING - LONGEST + 4
    smallest = opened(bundles("gemma3")[0], capacity=12, max_pass=4)
    assert smallest._kv.arrays["kv_window"].shape[3] == 12
    without_rings = Manifest.load(bundles("gemma3")[1])
    assert (without_rings.spec.n_window_layers, without_rings.spec.window) == (0, 0)


@pytest.mark.parametrize(("name", "kv"), KINDS)
def test_random_histories_of_every_verb(name: str, kv: KvType, bundles: Bundles) -> None:
    assert 0 < compare_histories(*both(bundles, name, kv), np.random.default_rng(7), 250) < 30


def test_one_can_go_back_as_far_as_the_window_is_whole(bundles: Bundles) -> None:
    ring, whole = both(bundles, "gemma3")
    tokens = text(100)
    for forward in (ring, whole):
        feed(forward, tokens)
    floor = 100 - RING + WINDOW - 1
    assert [ring.reachable(length) for length in (100, floor, floor - 1, 1, 0)] == [100, floor, 0, 0, 0]
    assert floor <= 100 - SLACK - LONGEST
    for forward in (ring, whole):
        forward.rewind(floor)
    assert feed(ring, tokens[floor:]) == feed(whole, tokens[floor:])
    ring.rewind(floor - 1)
    whole.rewind(0)
    assert ring.length == 0
    assert feed(ring, tokens) == feed(whole, tokens)
    with pytest.raises(ValueError, match="cannot rewind to 101"):
        ring.rewind(101)


def test_slots_are_gone_although_the_tokens_in_their_place_are_taken_back(bundles: Bundles) -> None:
    ring, _ = both(bundles, "gemma3")
    feed(ring, text(100))
    floor = 100 - RING + WINDOW - 1
    ring.rewind(floor + 1)
    assert ring.reachable(floor) == floor
    assert ring.reachable(floor - 1) == 0
    ring.extend([1])
    assert ring.reachable(floor - 1) == 0


def test_no_pass_overwrites_what_dropping_it_needs(bundles: Bundles) -> None:
    """The longest passes, trees all of which is dropped, from every row of the ring."""
    ring, whole = both(bundles, "gemma2")
    for token in text(2 * RING, 3):
        for forward in (ring, whole):
            forward.extend(text(LONGEST, token), parents=[-1] * LONGEST)
            forward.keep_path([])
        assert bits(ring.extend([token], rows=FULL)) == bits(whole.extend([token], rows=FULL))


def test_a_pass_that_fails_midway_leaves_what_was_there(
    bundles: Bundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, whole = both(bundles, "gemma3")
    tokens = text(60)
    for forward in (ring, whole):
        feed(forward, tokens)
    run = BoundPass.run

    def fails(*arguments: object) -> HeadRows:
        run(*arguments)  # type: ignore[arg-type]
        raise BadFileError("no number")

    floor = 60 - RING + WINDOW - 1
    assert ring.reachable(floor) == floor
    with monkeypatch.context() as patch:
        patch.setattr(BoundPass, "run", fails)
        with pytest.raises(BadFileError):
            ring.extend(text(LONGEST))
    assert (ring.length, ring.reachable(floor), ring.reachable(60)) == (60, 0, 60)
    assert feed(ring, text(20, 2)) == feed(whole, text(20, 2))


@pytest.mark.parametrize("params", [DrawParams(), DrawParams(temperature=0.8, top_k=20, seed=3)])
@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_replies_with_drafts_are_those_without(kv: KvType, params: DrawParams, bundles: Bundles) -> None:
    with_rings, without_rings = bundles("gemma3")
    found, plain, drafted = replies(
        [opened(bundle, kv) for bundle in (without_rings, with_rings, with_rings)], params
    )
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 150
    assert sum(record.drafted > record.committed for record in drafted) > 5  # some are taken back
    if not params.temperature:
        assert len(drafted) < len(plain)


def test_a_reply_that_is_too_long_to_take_back_goes_back_to_its_prompt(bundles: Bundles) -> None:
    """Behind the prompt rings were copied; another prompt is read again."""
    with_rings, without_rings = bundles("gemma3")
    prompt = text(40)
    replies, fed = [], []
    for bundle in (with_rings, without_rings):
        records: list[PassRecord] = []
        engine = Engine(opened(bundle), observe=records.append)
        for tokens in (prompt, [*prompt, 7], [*prompt[:20], 9]):  # regenerated otherwise; begun otherwise
            reusable, before = engine.reusable(tokens), len(records)
            reply = engine.generate(tokens, DrawParams(), max_tokens=30, stop_ids=())
            replies.append([step.token for step in reply])
            fed.append((reusable, records[before].start))
        short = engine.generate([*prompt[:20], 9, *replies[-1], 3], DrawParams(), max_tokens=3, stop_ids=())
        replies.append([step.token for step in short])
        fed.append((0, len(engine.committed) - 4))
    assert replies[:4] == replies[4:]
    assert fed[:3] == [(0, 0), (40, 40), (0, 0)]
    assert fed[4:] == [(0, 0), (40, 40), (20, 20), (0, 51)]


@pytest.mark.parametrize(("name", "kv"), KINDS)
def test_random_histories_that_go_back_to_expected_places(name: str, kv: KvType, bundles: Bundles) -> None:
    """Rings that were copied before they went round have the bits of a cache without rings."""
    ring, whole = both(bundles, name, kv)
    rng, back, tokens = np.random.default_rng(3), 0, list[int]()
    for _ in range(60):
        if ring.length > 330 or rng.random() < 0.3:
            length = int(rng.integers(0, ring.length + 1))
            live = ring._book.reachable(length)
            ring.rewind(length)
            back += ring.length > live
            assert ring.length <= length
            whole.rewind(ring.length)
            del tokens[ring.length :]
        if rng.random() < 0.5:
            places = sorted({int(one) for one in rng.integers(0, ring.length + 40, 4)})
            ring.expect(lambda places=places: places)
        more = text(int(rng.integers(1, 60)), int(rng.integers(1 << 30)))
        assert feed(ring, more) == feed(whole, more)
        tokens += more
    assert back > 5
    fresh = opened(bundles(name)[0], kv)
    feed(fresh, tokens)
    assert feed(ring, [1, 2, 3]) == feed(fresh, [1, 2, 3])


def test_a_copy_leads_back_a_few_tokens_further(bundles: Bundles) -> None:
    ring, whole = both(bundles, "gemma3")
    tokens, far = text(150), 60 - SLACK
    ring.expect(lambda: [60])
    feed(ring, tokens)
    assert [ring.reachable(at) for at in (150, 80, 60, far, far - 2)] == [150, 60, 60, far, 0]
    ring.rewind(far)
    feed(whole, tokens[:far])
    assert feed(ring, tokens[:9]) == feed(whole, tokens[:9])


def test_without_room_for_copies_everything_is_read_again(bundles: Bundles) -> None:
    ring, _ = both(bundles, "gemma3")
    ring.ledger.reshare({"kv_cache": 1 << 40, "rows": 1 << 40, "slack": 1 << 40, "snapshots": 100})
    ring.expect(lambda: [60])
    feed(ring, text(150))
    assert ring.reachable(60) == 0


@pytest.mark.parametrize("kv", ["fp16", "int8"])
def test_results_are_the_same_after_memory_was_given_back(
    kv: KvType, bundles: Bundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for least in ("_WORTHWHILE_BYTES", "_WORTHWHILE_SLOTS"):
        monkeypatch.setattr(kv_memory, least, 1)
    monkeypatch.setattr(sizes, "ring_sizes", lambda: (200, 2))  # several pages
    ring, whole = both(bundles, "gemma3", kv)
    for count, length in ((210, 180), (210, 15), (390, 330), (390, 200), (220, 0), (20, 0)):
        for forward in (ring, whole):
            feed(forward, text(count - forward.length))
            forward.rewind(length)
            assert forward.length == length
        tokens = text(LONGEST, count)
        assert bits(ring.extend(tokens, rows=FULL)) == bits(whole.extend(tokens, rows=FULL))


def test_a_graph_whose_rings_are_not_the_manifests_is_refused(bundles: Bundles) -> None:
    with_rings, without_rings = bundles("gemma3")
    for bundle, other in ((with_rings, without_rings), (without_rings, with_rings)):
        with pytest.raises(BadFileError, match="not the model that its manifest describes"):
            onnx_forward(bundle, Manifest.load(other), threads=1, capacity=50)
