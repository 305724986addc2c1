"""Buffers that the host computes before a pass."""

from __future__ import annotations

import base64
import struct
from itertools import pairwise

import numpy as np
import pytest

from edgedec.backends.gpu import inputs
from edgedec.backends.gpu.inputs import GpuPass
from edgedec.core.errors import BackendError


def test_the_facts_of_a_pass_are_packed_as_the_shaders_declare_them() -> None:
    packed = inputs.uniform(GpuPass(range(5), (), (), 7, (), temperature=0.7, first=1, behind=3), 2)
    assert len(packed) == inputs.UNIFORM_BYTES
    tokens, length, rows, zero, inverse, first, kept, behind = struct.unpack("<4If3I", packed)
    assert (tokens, length, rows, zero, first, kept, behind) == (5, 7, 2, 0, 1, 0, 3)
    assert inverse == np.float32(1) / np.float32(0.7)


def test_the_steps_of_a_tree_are_listed() -> None:
    """Three resident tokens are behind the states; token 2 begins from the state of token 0."""
    fed = GpuPass(range(3), (), (-1, -1, 0), 40, (), behind=3)
    found = inputs.steps(fed, taps=2)
    none = 0xFFFFFFFF
    follows, leaf, settles = 1, 2, 4
    assert found[:, :4].tolist() == [
        [0, none, none, none],
        [follows, none, none, none],
        [follows | settles, none, none, none],
        [follows, none, 0, 0],
        [leaf, none, none, 1],
        [leaf, 0, none, 2],
    ]
    trail = [slot % 32 for slot in range(36, 40)]
    pairs = [*pairwise(trail), (trail[3], 32), (trail[3], 33), (32, 34)]
    assert [tuple(row) for row in found[:, 4:6].tolist()] == pairs


def test_steps_that_cannot_be_are_refused() -> None:
    tree = tuple([-1] * 31)
    for parents, length, behind in (((-1, 1), 40, 0), ((-1,), 40, 31), (tree, 40, 0)):
        with pytest.raises(BackendError, match="cannot be listed"):
            inputs.steps(GpuPass(range(len(parents)), (), parents, length, (), behind=behind), 3)


def test_paths_of_a_tree_are_ancestors_and_the_token() -> None:
    found = inputs.paths([-1, -1, 0, 2, 1])
    assert [row[1 : 2 + row[0]].tolist() for row in found] == [[0], [1], [0, 2], [0, 2, 3], [1, 4]]


def test_paths_of_a_chain_are_all_before() -> None:
    found = inputs.paths([-1, 0, 1, 2])
    assert [row[1 : 2 + row[0]].tolist() for row in found] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_the_rotary_table_is_cosines_then_sines() -> None:
    frequencies = np.array([1.0, 0.01], np.float32)
    table = inputs.rotary([0, 3], base64.b64encode(frequencies.tobytes()).decode())
    angles = np.array([[0.0], [3.0]]) * frequencies.astype(np.float64)
    np.testing.assert_allclose(table, np.hstack([np.cos(angles), np.sin(angles)]), atol=1e-7)
