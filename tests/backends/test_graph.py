"""Ops and weights as ``read_graph`` finds them, beside what ``onnx`` finds."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from edgedec.backends.onnx.graph import read_graph
from edgedec.backends.onnx.protobuf_wire import WireError
from edgedec.backends.onnx.tap_outputs import with_outputs
from edgedec.bundle.manifest import MODEL
from edgedec.core.errors import BadFileError
from tests.fixtures.tiny_models import tiny_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("graph"), "gemma3")


def test_it_finds_what_onnx_finds(bundle: Path) -> None:
    graph = onnx.load(bundle / "model.onnx", load_external_data=False).graph
    found = read_graph(bundle)
    assert [one.op for one in found.nodes] == [one.op_type for one in graph.node]
    for mine, other in zip(found.nodes, graph.node, strict=True):
        assert (mine.inputs, mine.outputs) == (tuple(other.input), tuple(other.output))
        stated = {one.name: onnx.helper.get_attribute_value(one) for one in other.attribute}
        assert mine.attributes.keys() == stated.keys()
        for name, value in stated.items():
            expected = value.decode() if isinstance(value, bytes) else value
            assert mine.attributes[name] == (tuple(expected) if isinstance(expected, list) else expected)
    for tensor in graph.initializer:
        one = found.tensors[tensor.name]
        assert one.dims == tuple(tensor.dims)
        place = {entry.key: entry.value for entry in tensor.external_data}
        if place:
            assert (one.offset, one.nbytes) == (int(place["offset"]), int(place["length"]))
        else:
            assert one.data == tensor.raw_data


def test_a_graph_that_is_none_is_one_line(bundle: Path, tmp_path: Path) -> None:
    for name in ("model.onnx", "weights.bin"):
        (tmp_path / name).write_bytes((bundle / name).read_bytes())
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(BadFileError, match=r"model\.onnx of the bundle is broken"):
        read_graph(tmp_path)


def test_what_is_no_model_gets_no_outputs(bundle: Path) -> None:
    model = (bundle / MODEL).read_bytes()
    for damaged, said in ((model[:-1], "cut short"), (b"\x0b" + model, "no ONNX model")):
        with pytest.raises(WireError, match=said):
            with_outputs(damaged, [0], 64)
