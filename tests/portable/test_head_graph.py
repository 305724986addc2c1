"""head.onnx of a drafting head without our kernels: the values of its definition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from edgedec.backends.onnx.head_forward import HeadModel
from edgedec.bundle.head_facts import GRAPH, HeadFacts
from edgedec.bundle.manifest import Manifest
from edgedec.export.draft_head.bundle import export_head
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.export.stored import GraphWeights
from tests.fixtures.draft_heads import random_head
from tests.kernels.attention import depths
from tests.portable.runner import options
from tests.portable.test_portable import INT8_ROUNDING
from tests.reference.draft_head import fused, layer, logits

COMMITTED, DRAFTED, CAPACITY = 6, 3, 32
FLOAT_ROUNDING = 2e-3
"""Tolerance as a share of the largest value: float32, with keys and values kept as fp16."""
Array = NDArray[Any]


@pytest.fixture(scope="module", params=["q8_0", "q4_1", "bf16"])
def head(request: pytest.FixtureRequest, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("head")
    export_head(made_for(bundle), bundle, folder / "head", quant=request.param)
    return folder / "head"


def made_for(bundle: Path) -> HeadWeights:
    spec = Manifest.load(bundle).spec
    return random_head(spec.hidden_size, spec.vocab_size, ids=200)


class HeadRunner:
    """head.onnx in a session of stock ONNX Runtime, and its cache."""

    def __init__(self, head: Path, bundle: Path, facts: HeadFacts) -> None:
        path = str(head / "head.onnx")
        self.session = ort.InferenceSession(path, options(), providers=["CPUExecutionProvider"])
        self.cache = np.zeros((1, 2, facts.kv_heads, CAPACITY, facts.head_dim), np.float16)
        shape = facts.table_tiles, facts.table_tile_bytes
        self.table = np.memmap(bundle / "weights.bin", np.uint8, "r", facts.table_offset, shape)
        self.length, self.facts = 0, facts

    def step(
        self, tokens: list[int], taps: Array | None, states: Array | None, parents: list[int]
    ) -> dict[str, Array]:
        hidden = self.facts.hidden
        feeds = {
            "taps": np.empty((0, 3 * hidden), np.float32) if taps is None else taps,
            "states": np.empty((0, hidden), np.float32) if states is None else states,
            "tokens": np.array(tokens, np.int64),
            "positions": self.length + np.array(depths(parents), np.int64),
            "parents": np.array(parents, np.int64),
            "length": np.array([self.length], np.int64),
            "rows": np.arange(len(tokens), dtype=np.int64),
            "table": self.table,
            "kv_cache": self.cache,
        }
        names = [node.name for node in self.session.get_outputs()]
        out = dict(zip(names, self.session.run(names, feeds), strict=True))
        new = out["kv_new"]
        self.cache[:, :, :, self.length : self.length + new.shape[3]] = new
        self.length += len(tokens)
        return out


def facts_of(head: Path) -> HeadFacts:
    from edgedec.bundle.drafter_manifest import DrafterManifest

    return HeadFacts.of(DrafterManifest.load(head).facts)


def test_stock_onnx_runtime_computes_a_head(head: Path, bundle: Path) -> None:
    """Committed tokens, then drafted ones, against the definition and against the kernels."""
    facts, rng = facts_of(head), np.random.default_rng(4)
    taps = rng.standard_normal((COMMITTED, 3 * facts.hidden), dtype=np.float32)
    tokens = rng.integers(5, 250, COMMITTED + DRAFTED).tolist()
    plain = HeadRunner(head, bundle, facts)
    chain = list(range(-1, COMMITTED - 1))
    first = plain.step(tokens[:COMMITTED], taps, None, chain)
    second = plain.step(tokens[COMMITTED:], None, first["out"][-DRAFTED:], [-1, 0, 0])
    found = {name: one.read(0, one.rows) for name, one in GraphWeights(head, GRAPH).matrices.items()}
    weights = replace(made_for(bundle), **found)
    embedded = rows_of(bundle, facts, tokens)
    causal = np.tril(np.ones((COMMITTED, COMMITTED), np.bool_))
    outputs = layer(weights, fused(weights, taps), embedded[:COMMITTED], np.arange(COMMITTED), causal)
    near(first["out"], outputs, FLOAT_ROUNDING)
    assert weights.head is not None
    scores = logits(weights, outputs, weights.head)
    near(first["values"], np.sort(scores)[:, ::-1][:, : facts.head_k], FLOAT_ROUNDING)
    best = weights.keep[scores.argmax(axis=1)]
    np.testing.assert_array_equal(first["ids"][:, 0], best)
    kernels = HeadModel(head, bundle, facts, 300, threads=1).forward(CAPACITY)
    everything = tuple(range(COMMITTED))
    own = kernels.step(tokens[:COMMITTED], taps=taps, rows=everything)
    near(first["out"], own.out, INT8_ROUNDING)
    drafted = kernels.step(
        tokens[COMMITTED:], states=first["out"][-DRAFTED:], parents=[-1, 0, 0], rows=(0, 1, 2)
    )
    near(second["out"], drafted.out, INT8_ROUNDING)
    near(second["values"], drafted.rows.values, INT8_ROUNDING)
    assert np.abs(second["out"] - drafted.out).max() > 0, "else the kernels ran both"


def rows_of(bundle: Path, facts: HeadFacts, tokens: list[int]) -> Array:
    """The target's embeddings."""
    from edgedec.export.draft_head.target import embedding_table
    from edgedec.kernels.packing.layout import dequantise

    table = embedding_table(bundle)
    packed = np.memmap(bundle / "weights.bin", np.uint8, "r", table.offset, (table.tiles, table.tile_bytes))
    return np.asarray(dequantise(table.format, np.asarray(packed), table.rows, table.cols)[tokens])


def near(got: Array, expected: Array, share: float) -> None:
    np.testing.assert_allclose(got, expected, atol=share * np.abs(expected).max())
