"""Training begins with the target's last layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.export.draft_head.gguf import halves
from edgedec.export.stored import GraphMatrix
from edgedec.training.initial import initial_head
from edgedec.training.target_weights import KnownRows, TargetWeights
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.reference import draft_head as reference

KEEP = np.arange(3, 60, 2, dtype=np.int64)


@pytest.fixture(params=["llama", "qwen2", "gemma3"])
def bundle(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = write_tiny(tmp_path / "tiny.gguf", request.param, shape=TinyShape(layers=4))
    export_gguf(file, tmp_path / "bundle")
    return tmp_path / "bundle"


def whole(matrix: GraphMatrix) -> NDArray[np.float32]:
    return matrix.read(0, matrix.rows)


def test_the_layer_is_the_targets_last_one(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    weights = TargetWeights(bundle, manifest)
    head = initial_head(weights, manifest.spec, KEEP)
    np.testing.assert_array_equal(head.ffn_down, whole(weights.matrices["blk.3.ffn_down.weight"]))
    np.testing.assert_array_equal(head.attn_v[:, 64:], whole(weights.matrices["blk.3.attn_v.weight"]))
    np.testing.assert_array_equal(head.output_norm, weights.vector("output_norm.weight"))
    assert head.head is None
    taps = np.random.default_rng(0).standard_normal((5, 192)).astype(np.float32)
    np.testing.assert_array_equal(reference.fused(head, taps), taps[:, 128:])


def test_a_head_of_its_own_begins_with_the_targets_rows(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    weights = TargetWeights(bundle, manifest)
    head = initial_head(weights, manifest.spec, KEEP, own_head=True)
    np.testing.assert_array_equal(head.head, whole(weights.head)[KEEP])


def test_rows_of_a_table_come_in_any_order_and_more_than_once(bundle: Path) -> None:
    weights = TargetWeights(bundle, Manifest.load(bundle))
    rows = whole(weights.embedding)
    ids = np.array([[40, 3, 40], [17, 0, 3]])
    table = weights.embedding
    known = KnownRows(table.rows, table.cols, table.gather)
    for _ in range(2):
        np.testing.assert_array_equal(known.gather(ids), rows[ids])
    np.testing.assert_array_equal(known.gather(np.array([16, 17])), rows[[16, 17]])


def test_interleaved_pairs_become_halves_with_the_same_products() -> None:
    draw = np.random.default_rng(0)
    q, k, x = draw.standard_normal((8, 6)), draw.standard_normal((8, 6)), draw.standard_normal((2, 6))
    angle = 0.3

    def turned(vector: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
        out = vector.copy()
        for first, second in pairs:
            out[first] = vector[first] * np.cos(angle) - vector[second] * np.sin(angle)
            out[second] = vector[second] * np.cos(angle) + vector[first] * np.sin(angle)
        return out

    interleaved, halved = [(0, 1), (2, 3), (4, 5), (6, 7)], [(0, 4), (1, 5), (2, 6), (3, 7)]
    one = turned(q @ x[0], interleaved) @ (k @ x[1])
    two = turned(halves(q, 8) @ x[0], halved) @ (halves(k, 8) @ x[1])
    assert one == pytest.approx(two)
