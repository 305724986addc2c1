"""The pass machinery, and the default passes together on every architecture."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.gguf_source import open_gguf
from edgedec.export.graph import build_graph
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.model import ExportModel
from edgedec.export.passes import DEFAULT_PASSES, Pass, PassError, run_passes
from edgedec.export.tensors import Tensors
from tests.export.graphs import kinds, linear, make, matrix, node
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import PLAIN


class Rename(Pass):
    """Gives the first node another output name."""

    def __init__(self, to: str) -> None:
        self.to = to

    def call(self, model: ExportModel) -> bool:
        model.nodes[0].output[0] = self.to
        return self.to != "y"


def test_names_of_passes_that_changed_something() -> None:
    model = make([node("Identity", "y", "x", domain="")], ["y"])
    assert run_passes(model, [Rename("y"), Rename("y")]) == []


def test_an_error_names_the_passes_already_run() -> None:
    model = make([node("Identity", "y", "x", domain="")], ["y"])
    with pytest.raises(PassError) as caught:
        run_passes(model, [Rename("y"), Rename("other"), Rename("y")])
    assert str(caught.value) == "after pass Rename: output 'y' is not computed (passes already run: Rename)"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            make([node("Identity", "y", "late", domain=""), node("Identity", "late", "x", domain="")], ["y"]),
            "'late'",
        ),
        (make([node("Identity", "y", "x", domain="")] * 2, ["y"]), "computed twice"),
        (make([linear("y", "x", "w")], ["y"], w=matrix(), unused=matrix()), "'unused' is not used"),
    ],
)
def test_malformed_graphs_are_met_before_a_pass(model: ExportModel, message: str) -> None:
    with pytest.raises(PassError, match=f"before pass Rename: .*{message}.*already run: none"):
        run_passes(model, [Rename("y")])


@pytest.mark.parametrize("architecture", PLAIN)
def test_default_passes(architecture: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", architecture, shape=TinyShape(layers=3))
    with open_gguf(path) as source:
        hyper = read_hyperparameters(ARCHITECTURES[architecture], source.metadata)
        model = build_graph(hyper, Tensors(source))
    assert len(kinds(model)) > 3 * 14
    expected = [
        "FuseQkv",
        "FuseGatedMlp",
        "FuseResidual",
        "ReturnNewKv",
        "AttachBodies",
        "ExternaliseWeights",
    ]
    if ARCHITECTURES[architecture].fused:  # its q, k and v are one weight already
        expected.remove("FuseQkv")
    assert run_passes(model, DEFAULT_PASSES) == expected
    arch = ARCHITECTURES[architecture]
    norms, tables = 13 if arch.post_norms else 7, 1 + bool(arch.local_rope_base) + bool(arch.no_rope_period)
    assert Counter(kinds(model)) == {
        "QuantEmbedding": 1,
        "RotaryTable": tables,
        "RMSNorm": norms,
        "QuantLinear": 9,
        "TreeAttention": 3,
        "GatedMLP": 3,
        "Gather": 1,
        "HeadTopK": 1,
        "Concat": 1,
    }


def test_default_passes_over_shared_keys_and_per_layer_embeddings(tmp_path: Path) -> None:
    """Layers that share keys have queries alone, and read what the owner of the keys writes."""
    path = write_tiny(tmp_path / "m.gguf", "gemma4", shape=TinyShape(layers=7))
    with open_gguf(path) as source:
        hyper = read_hyperparameters(ARCHITECTURES["gemma4"], source.metadata)
        model = build_graph(hyper, Tensors(source))
    run_passes(model, DEFAULT_PASSES)
    found = Counter(kinds(model))
    assert (found["QuantEmbedding"], found["GatedProduct"], found["Add"]) == (2, 7, 0)
    attentions = [node for node in model.nodes if node.op_type == "TreeAttention"]
    shared = [node.input[8] for node in attentions if len(node.input) > 8]
    assert shared == [f"blk.{layer}.attention.kv_new" for layer in (3, 2, 2)]
    assert [len(node.output) for node in attentions] == [2, 2, 2, 2, 1, 1, 1]
    new = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.outputs}
    assert new["kv_new"][:3] == [1, 2, 1]
    assert new["kv_new_window"][:3] == [3, 2, 2]
