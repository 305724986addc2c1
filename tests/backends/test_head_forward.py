"""Drafting heads in ONNX Runtime against their definition in NumPy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgedec.backends.onnx.head_forward import HeadModel
from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.bundle.head_facts import GRAPH, HeadFacts
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, ContextFullError, EdgeDecError, MemoryBudgetError
from edgedec.core.ledger import Ledger
from edgedec.core.rows import FloatArray
from edgedec.core_lib.layer_drafters import HeadPass
from edgedec.export.draft_head.bundle import export_head
from edgedec.export.draft_head.target import embedding_table, head_rows
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.kernels.packing.layout import dequantise
from tests.fixtures.draft_heads import VARIANTS, random_head, varied
from tests.fixtures.tiny_models import tiny_bundle
from tests.reference import draft_head as reference

EXACT = "f32,head=f32"
TREE = (-1, -1, 0, 0, 1, 2, 4)


@dataclass(frozen=True)
class Setting:
    bundle: Path
    folder: Path
    weights: HeadWeights
    vocab: int

    def model(self) -> HeadModel:
        facts = HeadFacts.of(DrafterManifest.load(self.folder).facts)
        return HeadModel(self.folder, self.bundle, facts, self.vocab, threads=1)

    def embedded(self, tokens: list[int]) -> FloatArray:
        if self.weights.embedding is not None:
            return np.concatenate([self.weights.embedding.read(token, token + 1) for token in tokens])
        table = embedding_table(self.bundle)
        shape = table.tiles, table.tile_bytes
        packed = np.fromfile(self.bundle / "weights.bin", np.uint8, shape[0] * shape[1], offset=table.offset)
        return dequantise(table.format, packed.reshape(shape), table.rows, table.cols)[tokens]


def setting(folder: Path, quant: str = EXACT, *, own_head: bool = True, kind: str = "") -> Setting:
    bundle = tiny_bundle(folder)
    spec = Manifest.load(bundle).spec
    weights = random_head(spec.hidden_size, spec.vocab_size, ids=100, own_head=own_head)
    weights = varied(weights, spec.vocab_size, kind) if kind else weights
    export_head(weights, bundle, folder / "head", quant=quant)
    return Setting(bundle, folder / "head", weights, spec.vocab_size)


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return setting(tmp_path_factory.mktemp("exact"))


def inputs(one: Setting, count: int) -> tuple[list[int], FloatArray]:
    rng = np.random.default_rng(count)
    taps = rng.standard_normal((count, 3 * one.weights.hidden)).astype(np.float32)
    return rng.integers(0, one.vocab, count).tolist(), taps


def defined(one: Setting, tokens: list[int], taps: FloatArray) -> FloatArray:
    """The outputs of a chain of committed tokens."""
    count = len(tokens)
    sees = np.tril(np.ones((count, count), dtype=bool))
    states = reference.fused(one.weights, taps)
    return reference.layer(one.weights, states, one.embedded(tokens), np.arange(count), sees)


@pytest.mark.parametrize("kind", VARIANTS)
def test_a_head_of_another_trainer_computes_its_definition(tmp_path: Path, kind: str) -> None:
    one = setting(tmp_path, kind=kind)
    test_a_head_computes_its_definition(one)
    plain = replace(one, weights=random_head(64, one.vocab, ids=100))
    tokens, taps = inputs(one, 12)
    if kind != "taps":  # they decide what is read, not what is computed
        assert not np.allclose(defined(plain, tokens, taps), defined(one, tokens, taps), atol=2e-3)


def test_a_head_computes_its_definition(exact: Setting) -> None:
    tokens, taps = inputs(exact, 12)
    found = exact.model().forward(64).step(tokens, taps=taps, rows=[3, 11])
    out = defined(exact, tokens, taps)
    np.testing.assert_allclose(found.out, out, atol=2e-3)  # keys and values are kept in fp16
    assert exact.weights.head is not None
    logits = reference.logits(exact.weights, out, exact.weights.head)[[3, 11]]
    order = np.argsort(-logits, axis=1)[:, :5]
    np.testing.assert_array_equal(found.rows.ids[:, :5], exact.weights.keep[order])
    np.testing.assert_allclose(found.rows.values[:, :5], np.take_along_axis(logits, order, 1), atol=5e-3)
    np.testing.assert_allclose(
        found.rows.logsumexp, np.log(np.exp(logits.astype(np.float64)).sum(1)), atol=5e-3
    )


def test_drafted_tokens_go_on_from_its_own_outputs_along_their_path(exact: Setting) -> None:
    tokens, taps = inputs(exact, 6)
    drafted = [7, 8, 9, 10, 11, 12, 13]
    head = exact.model().forward(64)
    last = head.step(tokens, taps=taps).out[-1]
    outs: dict[int, FloatArray] = {-1: last}
    for depth in range(3):  # each depth needs the outputs of the one before: all is fed again
        known = [node for node in range(len(TREE)) if TREE[node] in outs]
        head.rewind(len(tokens))
        found = head.step(
            [drafted[node] for node in known],
            states=np.stack([outs[TREE[node]] for node in known]),
            parents=[known.index(TREE[node]) if TREE[node] >= 0 else -1 for node in known],
        )
        for row, node in enumerate(known):
            if node in outs:
                np.testing.assert_array_equal(outs[node], found.out[row], err_msg=str(depth))
            outs[node] = found.out[row]
    states = reference.fused(exact.weights, taps)
    for node in (3, 5, 6):
        path = [node]
        while TREE[path[0]] >= 0:
            path.insert(0, TREE[path[0]])
        line, text, outputs = states, list(tokens), defined(exact, tokens, taps)
        for step in path:
            line, text = np.vstack([line, outputs[-1:]]), [*text, drafted[step]]
            sees = np.tril(np.ones((len(text), len(text)), dtype=bool))
            outputs = reference.layer(exact.weights, line, exact.embedded(text), np.arange(len(text)), sees)
        np.testing.assert_allclose(outs[node], outputs[-1], atol=5e-3)


@pytest.mark.parametrize("quant", [EXACT, "q8_0", "q4_0,head=q4_0"])
def test_the_width_of_passes_does_not_change_a_bit(tmp_path: Path, quant: str) -> None:
    one = setting(tmp_path, quant)
    tokens, taps = inputs(one, 20)
    model = one.model()

    def passes(*widths: int) -> list[HeadPass]:
        head, at, found = model.forward(64), 0, []
        for width in widths:
            here = slice(at, at + width)
            found.append(head.step(tokens[here], taps=taps[here], rows=range(width)))
            at += width
        return found

    whole = passes(20)[0]
    for widths in ((1,) * 20, (7, 1, 12), (19, 1)):
        parts = passes(*widths)
        np.testing.assert_array_equal(np.concatenate([part.out for part in parts]), whole.out)
        for name in ("values", "ids", "logsumexp", "entropy"):
            joined = np.concatenate([getattr(part.rows, name) for part in parts])
            np.testing.assert_array_equal(joined, getattr(whole.rows, name))


@pytest.mark.parametrize(("quant", "error"), [("q8_0", 0.03), ("q5_1", 0.12), ("q4_0,head=q4_0", 0.25)])
@pytest.mark.parametrize("own_head", [True, False])
def test_a_quantised_head_stays_close(tmp_path: Path, quant: str, error: float, own_head: bool) -> None:
    one = setting(tmp_path, quant, own_head=own_head)
    tokens, taps = inputs(one, 16)
    found = one.model().forward(64).step(tokens, taps=taps, rows=range(16))
    out = defined(one, tokens, taps)
    assert np.abs(found.out - out).mean() < error * np.abs(out).mean()
    head = one.weights.head if own_head else head_rows(one.bundle, one.weights.keep)
    assert head is not None
    best = one.weights.keep[reference.logits(one.weights, out, head).argmax(axis=1)]
    among = [token in row[:3] for token, row in zip(best.tolist(), found.rows.ids.tolist(), strict=True)]
    assert np.mean(among) > 0.8


def test_a_head_without_rows_of_its_own_has_those_of_the_target(tmp_path: Path) -> None:
    one = setting(tmp_path, own_head=False)
    rows = head_rows(one.bundle, one.weights.keep)  # tied here: the head is the table
    np.testing.assert_array_equal(rows, one.embedded(one.weights.keep.tolist()))


def test_a_pass_that_does_not_fit_is_refused_and_appends_nothing(exact: Setting) -> None:
    tokens, taps = inputs(exact, 10)
    head = exact.model().forward(12)
    head.step(tokens, taps=taps)
    with pytest.raises(ContextFullError):
        head.step(tokens[:3], taps=taps[:3])
    with pytest.raises(ValueError, match="2 and 0 states for 1 tokens"):
        head.step(tokens[:1], taps=taps[:2])
    with pytest.raises(EdgeDecError, match="token id outside"):
        head.step([exact.vocab], taps=taps[:1])
    assert head.length == 10


def test_all_its_memory_is_leased(exact: Setting) -> None:
    ledger = Ledger()
    head = exact.model().forward(32, ledger)
    assert set(ledger.by_name()) == {"scratch", "buffers"}
    tokens, taps = inputs(exact, 4)
    head.step(tokens, taps=taps, rows=[3])
    assert set(ledger.by_name()) == {"scratch", "buffers", "kv_cache"}
    assert ledger.by_name()["kv_cache"] == head.nbytes()["kv_cache"] == 2 * 2 * 32 * 16 * 2
    with pytest.raises(MemoryBudgetError):
        exact.model().forward(32, Ledger({"scratch": 10}))


def test_a_head_for_another_target_or_with_other_sizes_is_refused(exact: Setting, tmp_path: Path) -> None:
    facts = HeadFacts.of(DrafterManifest.load(exact.folder).facts)
    for change in ({"hidden": 32}, {"head_k": 3}, {"kv_heads": 4}, {"table_tiles": 3}):
        with pytest.raises(BadFileError, match="is not the head that its manifest describes"):
            HeadModel(exact.folder, exact.bundle, replace(facts, **change), exact.vocab)
    with pytest.raises(BadFileError, match="outside the weights of its target"):
        HeadModel(exact.folder, exact.bundle, replace(facts, table_offset=1 << 30), exact.vocab)
    for wrong in ({}, {"hidden": "64"}, {"hidden": 0}, {"table_offset": -1}, {"ids": True}):
        stated = {**DrafterManifest.load(exact.folder).facts, **wrong}
        with pytest.raises(BadFileError, match="the drafting head"):
            HeadFacts.of(stated if wrong else {})


def test_a_graph_that_reads_weights_elsewhere_is_refused(tmp_path: Path) -> None:
    one = setting(tmp_path)
    facts = HeadFacts.of(DrafterManifest.load(one.folder).facts)
    graph = onnx.load(str(one.folder / GRAPH), load_external_data=False)
    for entry in graph.graph.initializer[0].external_data:
        entry.value = "../weights.bin" if entry.key == "location" else entry.value
    (one.folder / GRAPH).write_bytes(graph.SerializeToString())
    with pytest.raises(BadFileError, match=r"is not in weights\.bin"):
        HeadModel(one.folder, one.bundle, facts, one.vocab)


def test_ids_outside_the_vocabulary_are_refused_when_they_are_drafted(exact: Setting) -> None:
    facts = HeadFacts.of(DrafterManifest.load(exact.folder).facts)
    head = HeadModel(exact.folder, exact.bundle, facts, 5).forward(16)
    _, taps = inputs(exact, 2)
    with pytest.raises(BadFileError, match="ids outside the vocabulary"):
        head.step([1, 2], taps=taps, rows=[1])
