from __future__ import annotations

import numpy as np
import pytest

from edgedec.export.model import VectorWeight, attributes
from edgedec.export.passes.fuse_qkv import FuseQkv
from edgedec.export.passes.infra import PassError, run_passes
from tests.export.graphs import kinds, linear, make, matrix, node, vector


def test_three_linears_become_one() -> None:
    nodes = [
        linear("q", "x", "wq", rows=64, terms=2),
        linear("k", "x", "wk", terms=2),
        linear("v", "x", "wv", terms=2),
        node("Concat", "qkv", "q", "k", "v", domain="", axis=1),
    ]
    model = make(nodes, ["qkv"], wq=matrix(64), wk=matrix(), wv=matrix())
    assert run_passes(model, [FuseQkv()]) == ["FuseQkv"]
    (fused,) = model.nodes
    assert list(fused.input) == ["x", "", "", "wq", "wk", "wv"]
    assert list(fused.output) == ["qkv"]
    assert attributes(fused) == {"formats": "q4_0,q4_0,q4_0", "rows": [64, 32, 32], "cols": 64, "terms": 2}


def test_biases_are_concatenated_and_missing_ones_are_zero() -> None:
    nodes = [
        linear("a", "x", "wa", bias="ba", rows=2),
        linear("b", "x", "wb", rows=1),
        node("Concat", "ab", "a", "b", domain="", axis=1),
    ]
    model = make(nodes, ["ab"], wa=matrix(2), wb=matrix(1), ba=vector(1.5, -2.0))
    assert FuseQkv().call(model)
    bias = model.weights[model.nodes[0].input[1]]
    assert isinstance(bias, VectorWeight)
    np.testing.assert_array_equal(bias.values, np.array([1.5, -2.0, 0.0], dtype=np.float32))
    assert "ba" not in model.weights


def test_linears_of_different_inputs_stay() -> None:
    nodes = [
        linear("a", "x", "wa"),
        linear("b", "a", "wb"),
        node("Concat", "ab", "a", "b", domain="", axis=1),
    ]
    model = make(nodes, ["ab"], wa=matrix(), wb=matrix())
    assert not FuseQkv().call(model)
    assert kinds(model) == ["QuantLinear", "QuantLinear", "Concat"]


def test_linears_of_different_precision_stay() -> None:
    nodes = [
        linear("a", "x", "wa"),
        linear("b", "x", "wb", terms=2),
        node("Concat", "ab", "a", "b", domain="", axis=1),
    ]
    model = make(nodes, ["ab"], wa=matrix(), wb=matrix())
    assert not FuseQkv().call(model)


def test_a_linear_that_is_also_read_elsewhere_stays() -> None:
    nodes = [
        linear("a", "x", "wa"),
        linear("b", "x", "wb"),
        node("Concat", "ab", "a", "b", domain="", axis=1),
    ]
    model = make(nodes, ["ab", "a"], wa=matrix(), wb=matrix())
    assert not FuseQkv().call(model)


def test_attention_without_a_fused_linear_is_an_error() -> None:
    nodes = [node("Identity", "qkv", "x", domain=""), node("TreeAttention", "heads", "qkv")]
    with pytest.raises(PassError, match="after pass FuseQkv: heads is not fed by one QuantLinear"):
        run_passes(make(nodes, ["heads"]), [FuseQkv()])
