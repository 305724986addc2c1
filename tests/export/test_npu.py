"""Graphs for NPUs: standard ops, fixed shapes, explicit zero points, one file of weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.bundle.npu_facts import graph_name
from edgedec.core.errors import UsageError
from edgedec.export import NpuPlan, export_for_npu
from edgedec.export.npu.calibrate import rotary_tables
from edgedec.export.npu.scheme import affine_over, quantised_rows
from edgedec.export.npu.static_graph import StaticGraph
from tests.fixtures.tiny_gguf import write_tiny


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("npu")
    export_for_npu(write_tiny(folder / "tiny.gguf", "qwen2", tied=False), folder / "bundle")
    return folder / "bundle"


def graphs(bundle: Path) -> list[onnx.GraphProto]:
    names = [graph_name(length) for length in (1, 8, 32)]
    return [onnx.load(str(bundle / name), load_external_data=False).graph for name in names]


def places(graph: onnx.GraphProto) -> dict[str, dict[str, str]]:
    return {
        one.name: {entry.key: entry.value for entry in one.external_data}
        for one in graph.initializer
        if one.external_data
    }


def test_the_graphs_share_one_file_of_weights(bundle: Path) -> None:
    first, *others = (places(graph) for graph in graphs(bundle))
    assert first
    assert all(other == first for other in others)
    assert {place["location"] for place in first.values()} == {WEIGHTS}
    total = sum(int(place["length"]) for place in first.values())
    assert total < Manifest.load(bundle).files[WEIGHTS].bytes < total + (1 << 17)


def test_ops_are_standard_and_shapes_fixed(bundle: Path) -> None:
    for graph in graphs(bundle):
        assert {node.domain for node in graph.node} == {""}
        assert not {node.op_type for node in graph.node} & {"TensorScatter", "Loop", "If", "Attention"}
        for value in graph.input:
            assert all(dim.dim_value > 0 for dim in value.type.tensor_type.shape.dim)


def test_every_quantised_tensor_has_zero_points(bundle: Path) -> None:
    for graph in graphs(bundle):
        for node in graph.node:
            if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
                assert len(node.input) == 3
                assert node.input[2]


def test_norms_are_of_matrices(tmp_path: Path) -> None:
    export_for_npu(write_tiny(tmp_path / "tiny.gguf", "gemma3"), tmp_path / "bundle")
    graph = graphs(tmp_path / "bundle")[1]
    made = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type == "RMSNormalization" and node.input[0].endswith("/floats"):
            plain = made[made[made[node.input[0]].input[0]].input[0]]
            assert plain.op_type in ("Reshape", "Gemm")


def test_a_text_that_is_too_short_is_refused(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "tiny.gguf")
    with pytest.raises(UsageError, match="calibration text"):
        export_for_npu(gguf, tmp_path / "bundle", plan=NpuPlan("a few words"))
    assert not (tmp_path / "bundle").exists()


@given(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4), st.sampled_from([8, 16]))
def test_integers_hold_a_range_and_zero_exactly(one: float, other: float, bits: int) -> None:
    low, high = sorted((one, other))
    chosen = affine_over(low, high, bits)
    values = np.linspace(low, high, 50, dtype=np.float32)
    back = chosen.floats(chosen.quantised(values))
    np.testing.assert_allclose(
        back, values, rtol=0, atol=0.51 * chosen.scale + 1e-6 * max(abs(low), abs(high))
    )
    assert chosen.floats(chosen.quantised(np.zeros(1, np.float32)))[0] == 0


def test_rows_are_rounded_to_the_nearest_of_255_levels() -> None:
    rows = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    rows[2] = 0
    integers, scale = quantised_rows(rows)
    assert (np.abs(integers[[0, 1, 3, 4]].astype(int)).max(axis=1) == 127).all()
    np.testing.assert_allclose(integers * scale[:, None], rows, rtol=0, atol=0.51 * scale.max())


def test_rotary_tables_stand_in_the_order_of_the_inputs() -> None:
    """Whatever hashes the process has: the same model gives the same bytes."""
    names = [f"table{number}" for number in range(20)]
    inputs = {f"{name}.{part}": (1, [1]) for name in names for part in ("cos", "sin")}
    graph = StaticGraph(
        1, 4, inputs=inputs, rotary=dict.fromkeys(names, "f"), vectors={"f": np.ones(2, "f4")}
    )
    assert list(rotary_tables(graph)) == names
