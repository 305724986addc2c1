"""Experts read from a file into slots: the bits of those in memory, hits, and what becomes of faults."""

from __future__ import annotations

import ctypes
import errno
import mmap
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.bench.studies.expert_policies import (
    Expectation,
    Frequency,
    Recency,
    Routing,
    SlotPolicy,
    hits,
)
from edgedec.kernels import library
from edgedec.kernels.packing.experts import checksum
from tests.kernels.experts import Inputs, Layer, Store, random_inputs, random_layer, run
from tests.kernels.quant_rows import Runner
from tests.kernels.test_experts import MIXED
from tests.kernels.test_threads import threads

_MAP_FIXED = 0x10
BEST = Runner(library.isa())


@pytest.fixture(scope="module")
def layer() -> Layer:
    return random_layer(MIXED, 8, 256, 256, chosen=3)


@pytest.fixture
def file(layer: Layer, tmp_path: Path) -> Path:
    """A file with the layer twice, the second time its experts the other way round."""
    path = tmp_path / "weights.bin"
    path.write_bytes(layer.data.tobytes() + layer.data[::-1].tobytes())
    return path


def reversed_layer(layer: Layer) -> Layer:
    return Layer(layer.experts[::-1], layer.chosen)


def only(experts: list[int], m: int = 1) -> np.ndarray:
    """Scores by which each of m tokens chooses these."""
    scores = np.zeros((m, 8), np.float32)
    scores[:, experts] = 9
    return scores


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("slots", [2, 3, 5, 8, 16])
def test_the_bits_are_those_of_experts_in_memory(layer: Layer, file: Path, slots: int, direct: bool) -> None:
    stride = layer.data.shape[1]
    with Store(file, stride, slots, direct=direct) as store:
        for m in (1, 2, 30, 1, 1):
            for seed in range(3):
                inputs = random_inputs(layer, m, seed, extras=True)
                expected = run(BEST, layer, inputs).tobytes()
                assert run(BEST, layer, inputs, stored=(store, 0)).tobytes() == expected
                other = reversed_layer(layer)
                expected = run(BEST, other, inputs).tobytes()
                assert run(BEST, other, inputs, stored=(store, layer.data.nbytes)).tobytes() == expected


def test_a_place_that_no_direct_read_takes_is_read_through_the_cache(layer: Layer, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(bytes(8) + layer.data.tobytes())
    inputs = random_inputs(layer, 9, 1)
    with Store(file, layer.data.shape[1], 4, direct=True) as store:
        assert run(BEST, layer, inputs, stored=(store, 8)).tobytes() == run(BEST, layer, inputs).tobytes()


@pytest.mark.parametrize("pairs", [1, 7, 40])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_with_any_threads_and_waves(layer: Layer, file: Path, count: int, pairs: int) -> None:
    inputs = random_inputs(layer, 25, 7, extras=True)
    expected = run(BEST, layer, inputs).tobytes()
    with Store(file, layer.data.shape[1], 4) as store, threads(library.load(), count):
        assert run(BEST, layer, inputs, pairs, stored=(store, 0)).tobytes() == expected


def test_an_expert_is_read_once_while_it_has_its_slot(layer: Layer, file: Path) -> None:
    stride = layer.data.shape[1]
    inputs = random_inputs(layer, 1, 1)
    with Store(file, stride, 4) as store:
        for times in range(1, 4):
            inputs.scores[:] = only([1, 3, 6])
            run(BEST, layer, inputs, stored=(store, 0))
            assert store.counts() == (3 * times, 3 * (times - 1), 3 * stride)


def test_each_expert_of_a_long_pass_is_read_once(layer: Layer, file: Path) -> None:
    stride = layer.data.shape[1]
    inputs = random_inputs(layer, 60, 1)
    with Store(file, stride, 2) as store:
        run(BEST, layer, inputs, stored=(store, 0))
        assert store.counts() == (8, 0, 8 * stride)


def test_layers_of_other_sizes_at_the_same_place_are_others(layer: Layer, file: Path) -> None:
    few = Layer(layer.experts[:4], layer.chosen)
    with Store(file, layer.data.shape[1], 8) as store:
        for one in (few, layer, few, layer):
            inputs = random_inputs(one, 20, 1)
            assert run(BEST, one, inputs, stored=(store, 0)).tobytes() == run(BEST, one, inputs).tobytes()


def test_what_is_used_often_outlasts_what_was_used_last(layer: Layer, file: Path) -> None:
    inputs = random_inputs(layer, 1, 1)
    with Store(file, layer.data.shape[1], 4) as store:
        for experts in ([0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 3], [0, 1, 4], [0, 1, 5], [0, 1, 2]):
            inputs.scores[:] = only(experts)
            run(BEST, layer, inputs, stored=(store, 0))
        held, hits, _ = store.counts()
    # 3, 4 and 5 follow each other in one slot; 0, 1 and 2 keep theirs.
    assert held - hits == 6


def test_the_slots_have_the_experts_that_the_measured_policy_keeps(layer: Layer, file: Path) -> None:
    """`bench experts` replays it, beside others that do not keep the same."""
    rng, requests = np.random.default_rng(3), []
    inputs, likely = random_inputs(layer, 1, 1), np.arange(1, 9) / 36
    for _ in range(60):
        requests += [first + np.sort(rng.choice(8, 3, replace=False, p=likely)) for first in (0, 8)]
    routing, counted = Routing(2, 8, requests), []
    for slots in (6, 7, 9):
        with Store(file, layer.data.shape[1], slots) as store:
            for number, experts in enumerate(requests):
                other = number % 2
                inputs.scores[:] = only((experts - 8 * other).tolist())
                stored = store, other * layer.data.nbytes
                run(BEST, reversed_layer(layer) if other else layer, inputs, stored=stored)
            counted.append(store.counts()[1])

    def replayed(policy: Callable[[Routing], SlotPolicy]) -> list[int]:
        return [hits(routing, policy(routing), slots) for slots in (6, 7, 9)]

    assert counted == replayed(Expectation)
    others = [Recency, partial(Frequency, half_life=16)]
    others += [partial(Expectation, recent=16), partial(Expectation, usual=8)]
    assert counted not in [replayed(one) for one in others]


def test_passes_are_traced_until_the_numbers_are_so_many(layer: Layer, file: Path) -> None:
    inputs = random_inputs(layer, 1, 1)
    with Store(file, layer.data.shape[1], 8) as store:
        store.trace(9)
        for experts in ([1, 4, 6], [0, 4, 5], [2, 3, 7]):
            inputs.scores[:] = only(experts)
            run(BEST, layer, inputs, stored=(store, 0))
        found = store.traced()
    assert [found[0], found[4], len(found)] == [3, 3, 8]
    assert (sorted(found[1:4]), sorted(found[5:])) == ([1, 4, 6], [0, 4, 5])


def test_a_read_that_fails_ends_the_pass_and_the_next_one_reads_again(layer: Layer, file: Path) -> None:
    stride, whole = layer.data.shape[1], file.read_bytes()
    inputs = random_inputs(layer, 1, 1)
    inputs.scores[:] = only([2, 5, 7])
    expected = run(BEST, layer, inputs).tobytes()
    with Store(file, stride, 6) as store:
        file.write_bytes(whole[: 6 * stride - 1])  # cut within expert 5
        for _ in range(3):
            with pytest.raises(AssertionError, match="returned 4"):
                run(BEST, layer, inputs, stored=(store, 0))
        file.write_bytes(whole)
        assert run(BEST, layer, inputs, stored=(store, 0)).tobytes() == expected


def test_a_pass_behind_one_that_failed_waits_for_its_reads(layer: Layer) -> None:
    """Slots that are still read into are soon free: that is no lack of slots."""
    stride = layer.data.shape[1]
    with _mapped(layer.data, without=stride) as place:
        one, other = (random_inputs(layer, 1, 1) for _ in range(2))
        one.scores[:], other.scores[:] = only([0, 3, 5]), only([1, 2, 4])
        expected = run(BEST, layer, other).tobytes()
        with Store(Path("/proc/self/mem"), stride, 3) as store:
            for _ in range(50):
                with pytest.raises(AssertionError, match="returned 4"):
                    run(BEST, layer, one, stored=(store, place))
                assert run(BEST, layer, other, stored=(store, place)).tobytes() == expected


@contextmanager
def _mapped(data: NDArray[np.uint8], without: int) -> Iterator[int]:
    """Yield an address where ``data`` lies, but for its first bytes: reading them fails at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    place = libc.mmap(None, ctypes.c_size_t(data.nbytes), access, kind, -1, ctypes.c_long(0))
    ctypes.memmove(place, data.ctypes.data, data.nbytes)
    with tempfile.TemporaryFile() as nothing:  # mapped there, so that no other mapping takes the place
        fixed = mmap.MAP_SHARED | _MAP_FIXED, nothing.fileno(), ctypes.c_long(0)
        size = ctypes.c_size_t(without)
        assert libc.mmap(ctypes.c_void_p(place), size, mmap.PROT_READ, *fixed) == place
    yield place
    assert libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(data.nbytes)) == 0


def test_an_interrupted_pass_ends_and_the_next_one_is_right(layer: Layer, file: Path) -> None:
    inputs = random_inputs(layer, 5, 1)
    expected = run(BEST, layer, inputs).tobytes()
    with Store(file, layer.data.shape[1], 4) as store:
        for _ in range(20):
            store.interrupt(True)
            with pytest.raises(AssertionError, match="returned 4"):
                run(BEST, layer, inputs, stored=(store, 0))
            store.interrupt(False)
            assert run(BEST, layer, inputs, stored=(store, 0)).tobytes() == expected


def test_both_checksums_are_one_and_every_changed_bit_changes_it(layer: Layer) -> None:
    expert = bytearray(layer.data[0].tobytes())
    found = library.load().edgedec_expert_checksum
    found.restype = ctypes.c_int64

    def native() -> int:
        return int(found(bytes(expert), ctypes.c_size_t(len(expert))))

    whole = native()
    assert whole == checksum(bytes(expert))
    for bit in [63, 127, *np.random.default_rng(1).integers(0, 8 * len(expert), 200).tolist()]:
        expert[bit // 8] ^= 1 << bit % 8
        assert native() == checksum(bytes(expert)) != whole
        expert[bit // 8] ^= 1 << bit % 8
    expert[:8], expert[8:16] = expert[8:16], expert[:8]
    assert native() != whole


def test_faults_of_opening(layer: Layer, file: Path, tmp_path: Path) -> None:
    assert (Store(tmp_path / "none", 4096, 4).number, Store(tmp_path / "none", 4096, 4).error) == (
        0,
        errno.ENOENT,
    )
    assert Store(file, 1 << 62, 1 << 10).error == errno.EINVAL
    assert Store(file, 1 << 40, 1 << 20).error == errno.ENOMEM
    with (
        Store(file, layer.data.shape[1] - 4096, 4) as store,
        pytest.raises(AssertionError, match="returned 2"),
    ):
        run(BEST, layer, random_inputs(layer, 1), stored=(store, 0))


def test_two_passes_at_once_share_a_store(layer: Layer, file: Path) -> None:
    """Each holds its experts until it has computed them; with too few slots for both one of them says so."""
    jobs = [random_inputs(layer, m, m, extras=True) for m in (1, 3, 9, 20)]
    expected = [run(BEST, layer, inputs).tobytes() for inputs in jobs]
    wrong: list[object] = []

    def work(store: Store) -> None:
        for _ in range(20):
            for inputs, bits in zip(jobs, expected, strict=True):
                if run(BEST, layer, inputs, stored=(store, 0)).tobytes() != bits:
                    wrong.append(inputs)

    with Store(file, layer.data.shape[1], 16) as store:
        workers = [threading.Thread(target=work, args=(store,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not wrong


def test_two_slots_serve_any_pass_and_one_serves_none(layer: Layer, file: Path) -> None:
    inputs = Inputs(*(getattr(random_inputs(layer, 2, 3), name) for name in ("x", "scores")))
    with Store(file, layer.data.shape[1], 1) as store, pytest.raises(AssertionError, match="returned 4"):
        run(BEST, layer, inputs, stored=(store, 0))
