"""Recurrent ops: cuts into passes, trees and undone tokens change no bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgedec.core.cache_kinds import TRAIL_SLOTS
from edgedec.kernels import library
from tests.fixtures.nightly import diagonal
from tests.kernels.attention import path
from tests.kernels.float_rows import F32, float_rows, same_bits
from tests.kernels.gated_delta import Layer
from tests.kernels.recurrent import Memory, RecurrentLayer, undone
from tests.kernels.short_conv import ShortConvLayer
from tests.kernels.test_threads import threads
from tests.kernels.test_tree_attention import random_tree

DELTAS = [
    Layer(),
    Layer(k_heads=1, v_heads=1, v_dim=16),
    Layer(k_heads=2, v_heads=6, k_dim=32, v_dim=32, tiled=True, seed=1),
    Layer(k_heads=3, v_heads=3, k_dim=128, v_dim=128, seed=2),
    Layer(k_heads=2, v_heads=2, k_dim=16, v_dim=64, taps=1, seed=3),
    Layer(k_heads=1, v_heads=2, k_dim=48, v_dim=176, taps=8, seed=4),
]
LAYERS: list[RecurrentLayer] = [
    *DELTAS,
    ShortConvLayer(),
    ShortConvLayer(hidden=272, taps=4, seed=1),
    ShortConvLayer(hidden=16, taps=1, seed=2),
    ShortConvLayer(hidden=32, taps=8, seed=3),
]

LENGTHS = [0, 1, 2, 3, 31, 70]
"""Tokens before a tree."""


def chain_of(row: str, layer: RecurrentLayer, tokens: F32) -> tuple[F32, list[F32]]:
    """Outputs of a text, a pass a token, and the states after 0, 1, ... tokens."""
    memory, outs, states = Memory(layer), [], []
    for token in range(len(tokens)):
        outs.append(memory.run(row, tokens[token : token + 1]))
        states.append(memory.state.copy())
        assert memory.applied == token
    return np.concatenate(outs), states


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_every_row_has_the_bits_of_the_scalar_row(layer: RecurrentLayer) -> None:
    tokens, results = layer.tokens(50), []
    for row in float_rows():
        memory = Memory(layer)
        outs = [memory.run(row, tokens[:40]), memory.run(row, tokens[40:], random_tree(1, 10))]
        results.append((np.concatenate(outs), memory.state, memory.trail))
    for other in results[1:]:
        assert all(same_bits(a, b) for a, b in zip(other, results[0], strict=True))


def cuts(count: int) -> list[list[int]]:
    """Lengths of passes that make up ``count`` tokens."""
    found = [[count], [1] * count, [2] * (count // 2), [count - 1, 1], [1, count - 1], [29, count - 29]]
    found += [[30, count - 30], [31, count - 31], [32, count - 32], [33, 1, count - 34], [64, 3, count - 67]]
    for seed in range(6):
        rng, left = np.random.default_rng(seed), count
        lengths: list[int] = []
        while left:
            lengths.append(min(left, int(rng.choice([1, 2, 5, 28, 29, 30, 31, 32, 33, 50]))))
            left -= lengths[-1]
        found.append(lengths)
    return found


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_cuts_into_passes_change_no_bit(row: str, layer: RecurrentLayer) -> None:
    tokens = layer.tokens(100)
    plain, states = chain_of(row, layer, tokens)
    for lengths in cuts(100):
        memory, outs = Memory(layer), []
        for length in lengths:
            outs.append(memory.run(row, tokens[memory.length :][:length]))
            assert same_bits(memory.state, states[memory.applied]), lengths
            slots = np.arange(max(memory.applied - layer.taps + 1, 0), memory.length)
            assert same_bits(memory.trail[slots % TRAIL_SLOTS], layer.rows(tokens[slots]))
        assert same_bits(np.concatenate(outs), plain), lengths


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize(("layer", "length"), diagonal(LAYERS, LENGTHS), ids=str)
def test_a_branch_equals_the_plain_sequence_of_its_path(row: str, layer: RecurrentLayer, length: int) -> None:
    """Whatever the tree, and it leaves the state of the tokens before it."""
    text = layer.tokens(length + undone(layer))
    for seed, count in enumerate((2, 5, 16, 25)):
        tokens, parents = text[length:][:count], random_tree(seed, count)
        memory = Memory(layer)
        if length:
            memory.run(row, text[:length])
        out = memory.run(row, tokens, parents)
        _, states = chain_of(row, layer, text[: length + 1])
        assert same_bits(memory.state, states[length])
        for token in range(count):
            follows = np.concatenate([text[:length], tokens[path(parents, token)]])
            assert same_bits(out[token], chain_of(row, layer, follows)[0][-1]), (seed, token)


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_rounds_of_drafts_equal_plain_decoding(row: str, layer: RecurrentLayer) -> None:
    """Trees of which a path is kept, and chains of which the last tokens are taken back."""
    rng, text = np.random.default_rng(undone(layer)), layer.tokens(150)
    plain, states = chain_of(row, layer, text)
    wrong, memory = -text, Memory(layer)
    memory.run(row, text[:20])
    while memory.length < 120:
        count, good = int(rng.integers(1, undone(layer) + 1)), int(rng.integers(1, 12))
        good = min(good, count)
        tokens = wrong[:count].copy()
        if rng.random() < 0.5:
            tokens[:good] = text[memory.length :][:good]
            out = memory.run(row, tokens)[:good]
            memory.length += good - count
        else:
            parents = random_tree(int(rng.integers(99)), count)
            kept = path(parents, int(rng.integers(count)))
            tokens[kept] = text[memory.length :][: len(kept)]
            out = memory.run(row, tokens, parents)[kept]
            memory.keep(kept)
        assert same_bits(out, plain[memory.length - len(out) : memory.length])
        assert same_bits(memory.state, states[memory.applied])


@pytest.mark.parametrize(
    ("parents", "length", "applied"),
    [
        ([-1, 1], 0, 0),
        ([0], 0, 0),
        ([-2], 0, 0),
        ([-1], 5, 6),
        ([-1], 40, 10),
        ([-1], 1 << 40, 1 << 40),
        ([-1] * 30, 0, 0),
    ],
)
def test_wrong_arguments_are_refused(parents: Sequence[int], length: int, applied: int) -> None:
    memory = Memory(Layer())
    memory.length, memory.applied = length, applied
    before = memory.state.copy(), memory.trail.copy()
    out = np.zeros((len(parents), 4 * 48), np.float32)
    assert memory.layer.call("scalar", memory, memory.layer.tokens(len(parents)), parents, out) == 2
    assert same_bits(memory.state, before[0])
    assert same_bits(memory.trail, before[1])


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("layer", [DELTAS[3], ShortConvLayer(hidden=1040)], ids=str)
def test_the_number_of_threads_does_not_matter(row: str, layer: RecurrentLayer) -> None:
    tokens, results = layer.tokens(80), []
    for count in (1, 2, 5):
        with threads(library.load(), count):
            memory = Memory(layer)
            outs = [memory.run(row, tokens[:60]), memory.run(row, tokens[60:], random_tree(2, 20))]
            results.append((np.concatenate(outs), memory.state, memory.trail))
    for other in results[1:]:
        assert all(same_bits(a, b) for a, b in zip(other, results[0], strict=True))
