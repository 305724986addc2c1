"""A table of which only rows are looked up: its pages do not come to be counted as the process's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.kernels.packing import layout
from tests.fixtures.opened import onnx_forward
from tests.fixtures.tiny_gguf import write_tiny

ROWS, COLS = 65_536, 64
_LOOK_UP = """
import sys
import numpy as np, onnxruntime as ort
from edgedec.kernels import library
from edgedec.system.memory import mapped_rss_bytes
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.register_custom_ops_library(str(library.library_path()))
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
ids = np.random.default_rng(0).integers(0, int(sys.argv[2]), 200)
out = session.run(None, {"ids": ids})[0]
np.save(sys.argv[3], out)
print(mapped_rss_bytes("table.bin"))
"""


def written(folder: Path, *, alone: int) -> Path:
    """A graph that looks rows up in a table of floats, 16 MB in a file of its own."""
    raw = np.random.default_rng(1).normal(size=(ROWS, COLS)).astype(np.float32).view(np.uint8)
    packed = layout.pack("f32", raw)
    (folder / "table.bin").write_bytes(packed.tobytes())
    table = onnx.TensorProto(name="table", data_type=TensorProto.UINT8, dims=packed.shape)
    table.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "table.bin"), ("offset", "0"), ("length", str(packed.nbytes))):
        table.external_data.add(key=key, value=value)
    facts = {"format": "f32", "rows": ROWS, "cols": COLS, "alone": alone}
    node = helper.make_node("QuantEmbedding", ["ids", "table"], ["out"], domain="ai.edgedec", **facts)
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", COLS])
    graph = helper.make_graph([node], "look_up", [ids], [out], [table])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.edgedec", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere rows are read from memory")
def test_rows_of_a_table_read_by_nothing_else_stay_in_its_file(tmp_path: Path) -> None:
    outputs, resident = [], []
    for alone in (0, 1):
        model, out = written(tmp_path, alone=alone), tmp_path / f"out{alone}.npy"
        call = [sys.executable, "-c", _LOOK_UP, str(model), str(ROWS), str(out)]
        resident.append(int(subprocess.run(call, capture_output=True, text=True, check=True).stdout))
        outputs.append(np.load(out))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert resident[0] > 4_000_000  # 200 rows, and what the system maps around each
    assert resident[1] < 1_000_000


@pytest.mark.parametrize("tied", [False, True])
def test_the_manifest_says_how_much_need_not_be_in_memory(tied: bool, tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "tiny.gguf", "llama", formats="q8_0", tied=tied)
    export_gguf(gguf, tmp_path / "bundle")
    manifest = Manifest.load(tmp_path / "bundle")
    spec = manifest.spec
    shape = layout.FORMATS["q8_0"].packed_shape(spec.vocab_size, spec.hidden_size)
    assert spec.table_bytes == (0 if tied else np.prod(shape))
    assert Manifest.from_json(manifest.to_json()).spec.table_bytes == spec.table_bytes
    rows = onnx_forward(tmp_path / "bundle", manifest, capacity=32).extend([3, 1, 4])
    assert np.isfinite(rows.values).all()
