"""Buffers that the host computes before a pass."""

from __future__ import annotations

import base64
import struct

import numpy as np

from edgedec.backends.gpu import inputs


def test_the_facts_of_a_pass_are_packed_as_the_shaders_declare_them() -> None:
    packed = inputs.uniform(5, 7, 2, 0.7)
    assert len(packed) == inputs.UNIFORM_BYTES
    tokens, length, rows, zero, inverse, first, _, _ = struct.unpack("<4If3I", packed)
    assert (tokens, length, rows, zero, first) == (5, 7, 2, 0, 0)
    assert inverse == np.float32(1) / np.float32(0.7)


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
