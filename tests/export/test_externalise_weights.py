from __future__ import annotations

import numpy as np
import pytest

from edgedec.export.model import ExportModel, VectorWeight
from edgedec.export.passes.externalise_weights import ExternaliseWeights
from edgedec.export.passes.infra import PassError, run_passes
from tests.export.graphs import linear, make, matrix, node, vector


def model() -> ExportModel:
    big = VectorWeight(np.zeros(300, dtype=np.float32))
    nodes = [
        linear("a", "x", "second_listed"),
        node("RMSNorm", "b", "a", "big"),
        node("RMSNorm", "c", "b", "small"),
        linear("d", "c", "first_listed"),
        linear("e", "d", "second_listed"),
    ]
    return make(nodes, ["e"], first_listed=matrix(), second_listed=matrix(17), small=vector(1, 2), big=big)


def test_places_in_order_of_first_use() -> None:
    m = model()
    assert run_passes(m, [ExternaliseWeights()]) == ["ExternaliseWeights"]
    assert list(m.placements) == ["second_listed", "big", "first_listed"]
    assert m.placements == {"second_listed": 0, "big": 1152, "first_listed": 2368}
    assert all(offset % 64 == 0 for offset in m.placements.values())


def test_small_vectors_stay_in_the_graph() -> None:
    m = model()
    ExternaliseWeights().call(m)
    tensors = {tensor.name: tensor for tensor in m.to_onnx("m", {}).graph.initializer}
    assert np.frombuffer(tensors["small"].raw_data, np.float32).tolist() == [1.0, 2.0]
    assert not tensors["first_listed"].raw_data
    place = {entry.key: entry.value for entry in tensors["first_listed"].external_data}
    assert place == {"location": "weights.bin", "offset": "2368", "length": "1152"}


def test_only_once() -> None:
    m = model()
    with pytest.raises(PassError, match=r"weights already have places.*already run: ExternaliseWeights"):
        run_passes(m, [ExternaliseWeights(), ExternaliseWeights()])


def test_nothing_to_place() -> None:
    m = make([node("RMSNorm", "y", "x", "w")], ["y"], w=vector(1))
    assert run_passes(m, [ExternaliseWeights()]) == []
