"""MTP layers in ONNX Runtime against their definition in NumPy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from edgedec.backends.onnx.layer_forward import LayerForward
from edgedec.backends.onnx.mtp_forward import MtpModel
from edgedec.bundle.drafter_manifest import MTP, DrafterManifest
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.bundle.mtp_facts import GRAPH, MtpFacts
from edgedec.core.errors import BadFileError, ContextFullError
from edgedec.core.experts import Experts
from edgedec.core.ledger import Ledger
from edgedec.core.rows import FloatArray
from edgedec.export import export_gguf
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.draft_head.target import head_rows
from edgedec.export.gguf_source import open_gguf
from edgedec.export.hyperparameters import read_hyperparameters
from tests.fixtures.mtp_layers import LAYER, add_mtp, mtp_sizes, random_mtp
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.fixtures.tiny_models import tiny_bundle
from tests.reference.mtp import MtpReference


class Setting(NamedTuple):
    bundle: Path
    folder: Path
    reference: MtpReference
    table: FloatArray

    def facts(self) -> MtpFacts:
        return MtpFacts.of(DrafterManifest.load(self.folder).facts)

    def forward(self, capacity: int = 64, ledger: Ledger | None = None) -> LayerForward:
        return MtpModel(self.folder, self.bundle, self.facts(), threads=1).forward(capacity, ledger)


def make(folder: Path, quant: str = "f32") -> Setting:
    bundle = tiny_bundle(folder)
    spec = Manifest.load(bundle).spec
    hyper = mtp_sizes(spec.hidden_size)
    arrays = random_mtp(hyper)
    made = add_mtp(bundle, hyper, arrays, quant)
    table = head_rows(bundle, np.arange(spec.vocab_size))  # the head is tied
    return Setting(bundle, made, MtpReference(hyper, arrays), table)


def make_with_experts(folder: Path) -> Setting:
    """The layer of a model that has one."""
    shape = TinyShape(layers=LAYER, context=512, delta=DeltaShape(nextn=1))
    gguf = write_tiny(folder / "model.gguf", "qwen35moe", formats="f32", shape=shape)
    export_gguf(gguf, folder / "bundle")
    with open_gguf(gguf) as source:
        hyper = read_hyperparameters(ARCHITECTURES["qwen35moe"], source.metadata)
        ours = [
            t for n, t in source.tensors.items() if n.startswith(f"blk.{LAYER}.") or n == "output_norm.weight"
        ]
        arrays = {one.name: source.vector(one).reshape(one.shape) for one in ours}
    table = head_rows(folder / "bundle", np.arange(Manifest.load(folder / "bundle").spec.vocab_size))
    made = folder / "bundle" / "drafters" / MTP
    return Setting(folder / "bundle", made, MtpReference(hyper, arrays), table)


@pytest.fixture(scope="module", params=[make, make_with_experts], ids=["mlp", "experts"])
def exact(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    setting: Setting = request.param(tmp_path_factory.mktemp("mtp"))
    return setting


def inputs(one: Setting, count: int) -> tuple[list[int], FloatArray]:
    rng = np.random.default_rng(count)
    taps = (3 * rng.standard_normal((count, one.reference.hyper.hidden))).astype(np.float32)
    return rng.integers(0, len(one.table), count).tolist(), taps


def test_a_layer_computes_its_definition(exact: Setting) -> None:
    tokens, taps = inputs(exact, 12)
    found = exact.forward().step(tokens, taps=taps, rows=[3, 11])
    out = exact.reference.outputs(exact.reference.committed(taps), exact.table[tokens])
    np.testing.assert_allclose(found.out, out, atol=4e-3)  # keys and values are kept in fp16
    logits = out[[3, 11]] @ exact.table.T
    order = np.argsort(-logits, axis=1)[:, :3]
    np.testing.assert_allclose(found.rows.values[:, :3], np.take_along_axis(logits, order, 1), atol=0.02)
    assert (found.rows.ids[:, 0] == order[:, 0]).all()


def test_drafted_tokens_go_on_from_its_own_output(exact: Setting) -> None:
    tokens, taps = inputs(exact, 6)
    layer = exact.forward()
    state = layer.step(tokens, taps=taps).out[-1]
    states = exact.reference.committed(taps)
    text = list(tokens)
    out = exact.reference.outputs(states, exact.table[text])
    for token in (7, 8, 9):
        state = layer.step([token], states=state[None]).out[-1]
        states, text = np.vstack([states, out[-1:]]), [*text, token]
        out = exact.reference.outputs(states, exact.table[text])
        np.testing.assert_allclose(state, out[-1], atol=8e-3)


def test_a_tree_is_its_chains(exact: Setting) -> None:
    tokens, taps = inputs(exact, 5)
    layer = exact.forward()
    state = layer.step(tokens, taps=taps).out[-1:]
    rest = np.random.default_rng(0).standard_normal((3, state.shape[1])).astype(np.float32)
    tree = layer.step([1, 2, 3, 4], states=np.vstack([state, rest]), parents=[-1, 0, 0, 2])
    layer.rewind(5)
    chain = layer.step([1, 3, 4], states=np.vstack([state, rest[1:]]))
    np.testing.assert_array_equal(tree.out[[0, 2, 3]], chain.out)


def test_pieces_have_the_bits_of_the_whole(exact: Setting) -> None:
    tokens, taps = inputs(exact, 20)
    whole = exact.forward().step(tokens, taps=taps).out
    layer = exact.forward()
    parts = [layer.step(tokens[at : at + 3], taps=taps[at : at + 3]).out for at in range(0, 20, 3)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_trimmed_head_has_the_rows_of_the_whole_one(exact: Setting) -> None:
    tokens, taps = inputs(exact, 4)
    layer = exact.forward()
    whole = layer.step(tokens, taps=taps, rows=[3]).rows
    layer.rewind(0)
    layer.keep = np.sort(whole.ids[0, 5:15]).astype(np.int64)
    found = layer.step(tokens, taps=taps, rows=[3]).rows
    assert found.ids[0, :10].tolist() == whole.ids[0, 5:15].tolist()
    np.testing.assert_allclose(found.values[0, :10], whole.values[0, 5:15], rtol=0.02)
    assert set(found.ids[0, 10:].tolist()) == {-1}


def test_impossible_passes_change_nothing(exact: Setting) -> None:
    tokens, taps = inputs(exact, 5)
    layer = exact.forward(8)
    layer.step(tokens, taps=taps)
    with pytest.raises(ValueError, match="states for"):
        layer.step([1], taps=taps[:2])
    with pytest.raises(ContextFullError):
        layer.step(tokens, taps=taps)
    assert layer.length == 5


def test_memory_is_leased(exact: Setting) -> None:
    ledger = Ledger()
    layer = exact.forward(64, ledger)
    layer.step([1], taps=np.zeros((1, exact.reference.hyper.hidden), np.float32))
    assert {"kv_cache", "scratch", "buffers"} <= ledger.by_name().keys()


@pytest.mark.parametrize(
    "changed",
    [{"hidden": 32}, {"kv_heads": 1}, {"head_k": 3}, {"table_tiles": 1}, {"head_offset": 1 << 40}],
    ids=str,
)
def test_a_graph_that_its_facts_do_not_describe_is_refused(exact: Setting, changed: dict[str, int]) -> None:
    with pytest.raises(BadFileError) as caught:
        MtpModel(exact.folder, exact.bundle, replace(exact.facts(), **changed), threads=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("field", "value"), [("hidden", 0), ("ffn", -1), ("ids", 1 << 40), ("heads", True)])
def test_impossible_facts_are_refused(exact: Setting, field: str, value: int) -> None:
    with pytest.raises(BadFileError, match="states an impossible"):
        replace(exact.facts(), **{field: value})


@pytest.mark.parametrize("changed", [{"chosen": 1 << 20}, {"experts": 3}, {"expert_width": 0}], ids=str)
def test_experts_that_contradict_each_other_are_refused(exact: Setting, changed: dict[str, int]) -> None:
    facts = replace(exact.facts(), experts=8, chosen=4, expert_width=32, expert_bytes=4096)
    assert facts.spec(8).experts == Experts(1, 8, 4, 32, 4096, 8 * 4096)
    with pytest.raises(BadFileError, match="states experts whose numbers do not fit"):
        replace(facts, **changed)


def test_facts_of_before_there_were_experts_have_none(exact: Setting) -> None:
    stated = {**DrafterManifest.load(exact.folder).facts}
    for name in ("experts", "chosen", "expert_width", "expert_bytes"):
        del stated[name]
    assert MtpFacts.of(stated).spec(8).experts is None


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    one = make(tmp_path)
    path = one.folder / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadFileError):
        DrafterManifest.load(one.folder)
