"""Sharing out an op over threads: every thread takes part in quantising, and the bits stay those of one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from edgedec.kernels import library
from tests.kernels.attention import Model, run
from tests.kernels.float_rows import library_for, pointer, rows_of_caches
from tests.kernels.quant_rows import SCALAR, Packed, Runner, random_packed, runner_id, runners

RUNNERS = [SCALAR, *runners()]
EVERY_CACHE = pytest.mark.parametrize(("row", "int8"), rows_of_caches())
THREADS = (1, 2, 3, 4)


@contextmanager
def threads(kernels: ctypes.CDLL, count: int) -> Iterator[None]:
    """Calls of a library use ``count`` threads."""
    kernels.edgedec_set_threads(count)
    try:
        yield
    finally:
        kernels.edgedec_set_threads(1)


def quantising_threads(runner: Runner, w: Packed, x: np.ndarray, terms: int) -> int:
    """How many threads quantise the activations ``x`` of one QuantLinear."""
    out = np.empty((len(x), w.rows), np.float32)
    return int(
        library.load(runner.path).edgedec_quantising_threads(
            runner.row.encode(), w.format.encode(), pointer(w.data), w.rows, w.cols,
            pointer(x), len(x), terms, pointer(out),
        )
    )  # fmt: skip


def inputs(m: int, cols: int) -> np.ndarray:
    return np.random.default_rng(m).normal(0, 1, (m, cols)).astype(np.float32)


@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("m", range(2, 9))
def test_both_threads_quantise_the_activations_of_a_few_tokens(m: int, terms: int) -> None:
    w, runner = random_packed("q8_0", 576, 576, 1), Runner(library.isa())
    with threads(library.load(runner.path), 2):
        assert quantising_threads(runner, w, inputs(m, 576), terms) == 2


@pytest.mark.parametrize("cols", [1536, 8960])
def test_both_threads_quantise_the_activations_of_one_long_token(cols: int) -> None:
    w, runner = random_packed("q8_0", 576, cols, 1), Runner(library.isa())
    with threads(library.load(runner.path), 2):
        assert quantising_threads(runner, w, inputs(1, cols), 1) == 2


def test_one_thread_quantises_alone() -> None:
    w, runner = random_packed("q8_0", 576, 576, 1), Runner(library.isa())
    assert quantising_threads(runner, w, inputs(8, 576), 1) == 1


@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("format", ["q8_0", "q4_k", "f16"])
@pytest.mark.parametrize("runner", RUNNERS, ids=runner_id)
def test_a_product_has_the_same_bits_for_every_number_of_threads(
    runner: Runner, format: str, terms: int
) -> None:
    w = random_packed(format, 700, 1280 if format == "q4_k" else 1184, 2)
    for m in (1, 2, 3, 8, 9, 40):  # from 24 on rows may unpack tiles once for all
        results = []
        for count in THREADS:
            with threads(library.load(runner.path), count):
                results.append(runner.linear(w, inputs(m, w.cols), terms=terms).tobytes())
        assert len(set(results)) == 1, m


@pytest.mark.parametrize("runner", RUNNERS, ids=runner_id)
def test_an_mlp_has_the_same_bits_for_every_number_of_threads(runner: Runner) -> None:
    gate, up = random_packed("q8_0", 700, 1184, 3), random_packed("q5_0", 700, 1184, 4)
    for m in (1, 8, 17):
        results = []
        for count in THREADS:
            with threads(library.load(runner.path), count):
                results.append(runner.gated_mlp(gate, up, inputs(m, 1184)).tobytes())
        assert len(set(results)) == 1, m


@pytest.mark.parametrize("runner", RUNNERS, ids=runner_id)
def test_a_head_has_the_same_bits_for_every_number_of_threads(runner: Runner) -> None:
    w = random_packed("q8_0", 5000, 576, 5)
    for m in (1, 8, 17):
        results = []
        for count in THREADS:
            with threads(library.load(runner.path), count):
                found = runner.head(w, inputs(m, 576), logits=True, refined=True)
                results.append(b"".join(found[name].tobytes() for name in sorted(found)))
        assert len(set(results)) == 1, m


def test_the_entropy_does_not_depend_on_the_order_in_which_threads_find_candidates() -> None:
    w, runner = random_packed("q8_0", 5000, 576, 5), Runner(library.isa())
    for seed in range(40):
        x = np.random.default_rng(seed).normal(0, 1, (16, 576)).astype(np.float32)
        alone = runner.head(w, x, refined=True)["entropy"]
        for count in THREADS[1:]:
            with threads(library.load(runner.path), count):
                assert runner.head(w, x, refined=True)["entropy"].tobytes() == alone.tobytes(), (seed, count)


@EVERY_CACHE
@pytest.mark.parametrize("heads", [6, 12])
@pytest.mark.parametrize("split", [(1, 16, 64), (2, 32, 16), (2, 0, 0)])
def test_attention_has_the_same_bits_for_every_number_of_threads(
    row: str, split: tuple[int, int, int], heads: int, int8: bool
) -> None:
    """With tasks for each thread, with some left over, and with fewer tasks than threads."""
    model, parents = Model(heads=heads, kv_heads=2, dim=128, int8=int8), [-1, 0, 0, 1]
    results = []
    for count in (*THREADS, 9):
        cache = model.cache(300, 400)
        with threads(library_for(row), count):
            results.append(run(row, model, model.tokens(4), parents, cache, 300, split).tobytes())
    assert len(set(results)) == 1
