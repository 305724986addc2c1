"""Bundles whose graph or weights were tampered with: one line, never a crash."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgedec.backends.onnx import model as onnx_backend
from edgedec.bundle.manifest import MODEL, WEIGHTS, Manifest
from edgedec.core.errors import BackendError, BadFileError
from edgedec.memory import sizes
from tests.fixtures.opened import onnx_forward

Bundles = Callable[[str], Path]
Change = Callable[[onnx.GraphProto], None]

_RUN = """
import sys
from pathlib import Path
from edgedec.backends.onnx.model import OnnxModel
from edgedec.core.errors import EdgeDecError
from edgedec.bundle.manifest import Manifest
try:
    model = OnnxModel(Path(sys.argv[1]), Manifest.load(Path(sys.argv[2])), threads=1, spin=False)
    forward = model.forward()
    forward.extend([1, 2, 3])
except EdgeDecError as error:
    print(error)
"""


def first(graph: onnx.GraphProto, kind: str) -> onnx.NodeProto:
    return next(node for node in graph.node if node.op_type == kind)


def put(node: onnx.NodeProto, **values: Any) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name not in values]
    del node.attribute[:]
    node.attribute.extend([*kept, *(onnx.helper.make_attribute(k, v) for k, v in values.items())])


def empty_weight(kind: str, position: int) -> Change:
    def change(graph: onnx.GraphProto) -> None:
        graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(0, np.uint8), "empty"))
        first(graph, kind).input[position] = "empty"

    return change


def heads_that_wrap_around(graph: onnx.GraphProto) -> None:
    """2^60 heads of 16 elements are 0 elements modulo 2^64, which the keys and values alone then fit."""
    linear = first(graph, "QuantLinear")
    del linear.input[3]
    put(linear, formats="q8_0,q8_0", rows=[32, 32])
    put(first(graph, "TreeAttention"), num_heads=1 << 60)


def keep(*ids: int) -> Change:
    def change(graph: onnx.GraphProto) -> None:
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(ids, np.int64), "keep"))
        first(graph, "HeadTopK").input[3] = "keep"

    return change


def temperature(*values: float) -> Change:
    def change(graph: onnx.GraphProto) -> None:
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(values, np.float32), "warmth"))
        first(graph, "HeadTopK").input[4] = "warmth"

    return change


def attention(**values: int) -> Change:
    return lambda graph: put(first(graph, "TreeAttention"), **values)


CHANGES: dict[str, tuple[Change, str]] = {
    "empty weight": (empty_weight("QuantLinear", 3), "packed weight has 0 bytes"),
    "empty gate": (empty_weight("GatedMLP", 1), "packed weight has 0 bytes"),
    "empty table": (empty_weight("QuantEmbedding", 1), "packed weight has 0 bytes"),
    "empty head": (empty_weight("HeadTopK", 1), "packed weight has 0 bytes"),
    "heads that wrap around": (heads_that_wrap_around, "num_heads is not a possible size"),
    "no heads": (attention(num_heads=0), "num_heads is not a possible size"),
    "no key heads": (attention(num_kv_heads=0), "num_kv_heads is not a possible size"),
    "no head size": (attention(head_dim=0), "head_dim is not a possible size"),
    "negative head size": (attention(head_dim=-16), "head_dim is not a possible size"),
    "layer beyond the cache": (attention(layer=2), "kv_cache must be"),
    "negative layer": (attention(layer=-1), "kv_cache must be"),
    "ring beyond the cache": (attention(ring=1, layer=2), "kv_window must be"),
    "huge rows": (lambda g: put(first(g, "QuantLinear"), rows=[1 << 40, 32, 32]), "impossible weight shape"),
    "huge k": (lambda g: put(first(g, "HeadTopK"), k=1 << 40), "k must be 1 to"),
    "keep beyond the table": (keep(3, 1 << 40), "keep must be ascending ids"),
    "keep out of order": (keep(3, 3), "keep must be ascending ids"),
    "no temperature": (temperature(), "temperature must be one number"),
    "two temperatures": (temperature(1.0, 1.0), "temperature must be one number"),
    "temperature of 0": (temperature(0.0), "temperature must be positive"),
    "temperature below 0": (temperature(-1.0), "temperature must be positive"),
    "endless temperature": (temperature(float("inf")), "temperature must be positive"),
    "temperature that is no number": (temperature(float("nan")), "temperature must be positive"),
    "long names": (lambda g: put(first(g, "QuantLinear"), formats="q8_0," * 200), "formats is missing"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_tampered_graph_is_refused_in_one_line(name: str, tiny_bundle: Bundles, tmp_path: Path) -> None:
    """In a process of its own: what is tested is that it lives."""
    change, message = CHANGES[name]
    bundle, copy = tiny_bundle("llama"), tmp_path / "copy"
    shutil.copytree(bundle, copy)
    model = onnx.load(str(copy / MODEL), load_external_data=False)
    change(model.graph)
    (copy / MODEL).write_bytes(model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(copy), str(bundle)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert message in done.stdout
    assert done.stdout.count("\n") == 1


RINGS: dict[str, tuple[Change, int, str]] = {
    "huge window": (attention(window=1 << 62), 10, "ring is too small"),
    "window a token too long": (attention(window=10), 10, "ring is too small"),
    "negative window": (attention(window=-8), 10, "cache is too small"),
    "no ring": (attention(ring=0), 10, "cache is too small"),
    "layer beyond the rings": (attention(layer=5), 0, "kv_window must be"),
}
"""Name -> the change, tokens that are taken all the same, what is said then."""


@pytest.mark.parametrize("name", RINGS)
def test_a_tampered_window_is_refused_when_its_ring_goes_round(
    name: str, tiny_bundle: Bundles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 8 tokens, in a ring with room for passes over two; nothing that was there is lost."""
    monkeypatch.setattr(sizes, "ring_sizes", lambda: (0, 2))
    monkeypatch.setattr(onnx_backend, "MAX_PASS_TOKENS", 2)
    change, taken, message = RINGS[name]
    bundle, copy = tiny_bundle("gemma3"), tmp_path / "copy"
    shutil.copytree(bundle, copy)
    model = onnx.load(str(copy / MODEL), load_external_data=False)
    del model.functions[:]
    change(model.graph)
    for node in model.graph.node:
        node.overload = ""
    (copy / MODEL).write_bytes(model.SerializeToString())
    forward = onnx_forward(copy, Manifest.load(bundle), threads=1, spin=False)
    for _ in range(taken // 2):
        forward.extend([1, 2])
    with pytest.raises(BackendError, match=message) as caught:
        forward.extend([1, 2])
    assert "\n" not in str(caught.value)
    assert forward.length == taken


@pytest.mark.parametrize("scale", [np.nan, np.inf])
@pytest.mark.parametrize("op", ["QuantEmbedding", "QuantLinear", "GatedMLP", "HeadTopK"])
def test_weights_that_are_no_numbers_are_a_bad_file(
    op: str, scale: float, tiny_bundle: Bundles, tmp_path: Path
) -> None:
    """The first scale of each of the first three tiles of a matrix is replaced."""
    bundle, copy = tiny_bundle("qwen2"), tmp_path / "copy"
    shutil.copytree(bundle, copy)
    graph = onnx.load(str(copy / MODEL), load_external_data=False).graph
    names = set(first(graph, op).input)
    weight = next(w for w in graph.initializer if w.name in names and w.data_type == onnx.TensorProto.UINT8)
    offset = next(int(entry.value) for entry in weight.external_data if entry.key == "offset")
    content = bytearray((copy / WEIGHTS).read_bytes())
    for tile in range(3):
        at = offset + tile * weight.dims[1]
        content[at : at + 32] = np.full(16, scale, dtype=np.float16).tobytes()
    (copy / WEIGHTS).write_bytes(content)
    forward = onnx_forward(copy, Manifest.load(bundle), threads=2, spin=False)
    with pytest.raises(BadFileError, match="not numbers") as caught:
        forward.extend([1, 20, 40, 5])
    assert "\n" not in str(caught.value)
    assert forward.length == 0
