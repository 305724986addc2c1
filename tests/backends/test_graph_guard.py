"""Weights of a graph that lie elsewhere, or partly nowhere, are refused before anything is mapped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from edgedec.backends.onnx.graph_guard import check_graph
from edgedec.bundle.manifest import MANIFEST, MODEL, TOKENIZER, WEIGHTS, Manifest
from edgedec.core.errors import BadFileError
from tests.fixtures.opened import onnx_forward

Bundles = Callable[[str], Path]
Change = Callable[[onnx.ModelProto], object]


def place(**values: str) -> Change:
    """Give the first external weight another place."""

    def change(model: onnx.ModelProto) -> None:
        entries = next(w for w in model.graph.initializer if w.external_data).external_data
        for key, value in values.items():
            next(entry for entry in entries if entry.key == key).value = value

    return change


def external(tensor: onnx.TensorProto, location: str) -> None:
    tensor.data_type, tensor.data_location = onnx.TensorProto.UINT8, onnx.TensorProto.EXTERNAL
    tensor.dims.extend([64])
    for key, value in (("location", location), ("offset", "0"), ("length", "64")):
        tensor.external_data.add(key=key, value=value)


def attribute(model: onnx.ModelProto) -> onnx.AttributeProto:
    return model.graph.node[0].attribute.add(name="extra")


def nested(model: onnx.ModelProto, depth: int = 3) -> onnx.GraphProto:
    graph = attribute(model).g
    for _ in range(depth):
        graph = graph.node.add(op_type="If").attribute.add(name="then_branch").g
    return graph


OUTSIDE = "a weight is not in weights.bin"
CHANGES: dict[str, tuple[Change, str]] = {
    "parent folder": (place(location="../weights.bin"), OUTSIDE),
    "absolute path": (place(location="/etc/passwd"), OUTSIDE),
    "roundabout": (place(location="./weights.bin"), OUTSIDE),
    "memory": (place(location="*/_ORT_MEM_ADDR_/*"), OUTSIDE),
    "attribute": (lambda m: external(attribute(m).t, "../x"), OUTSIDE),
    "attribute list": (lambda m: external(attribute(m).tensors.add(), "../x"), OUTSIDE),
    "nested graph": (lambda m: external(nested(m).initializer.add(), "../x"), OUTSIDE),
    "sparse weight": (lambda m: external(m.graph.sparse_initializer.add().values, "../x"), OUTSIDE),
    "sparse indices": (lambda m: external(attribute(m).sparse_tensor.indices, "../x"), OUTSIDE),
    "function": (lambda m: external(m.functions.add().node.add().attribute.add().t, "../x"), OUTSIDE),
    "beyond the end": (place(offset=str(1 << 40)), "lies outside weights.bin"),
    "wraps around": (place(offset=str(2**64 - 64)), "is not a number"),
    "negative": (place(offset="-64"), "is not a number"),
    "other digits": (place(offset="\u0664"), "is not a number"),
    "too short": (place(length="64"), "another size than its shape"),
    "larger than its bytes": (lambda m: m.graph.initializer[0].dims.append(2), "another size than its shape"),
    "sizes that wrap": (lambda m: m.graph.initializer[0].dims.extend([2**32, 2**32]), "another size"),
    "negative size": (lambda m: m.graph.initializer[0].dims.extend([-1]), "another size than its shape"),
    "strings": (lambda m: setattr(m.graph.initializer[0], "data_type", 8), "another size than its shape"),
    "two places": (
        lambda m: m.graph.initializer[0].external_data.add(key="location", value="x"),
        "where it is",
    ),
    "no place": (lambda m: m.graph.initializer[0].external_data.pop(), "does not say where it is"),
    "deep": (lambda m: nested(m, 60), "nested too deeply"),
}


DOMAINS: dict[str, Change] = {
    "import": lambda m: m.opset_import.add(domain="com.microsoft", version=1),
    "node": lambda m: setattr(m.graph.node.add(op_type="EPContext"), "domain", "com.microsoft"),
    "nested": lambda m: setattr(nested(m).node.add(op_type="EPContext"), "domain", "com.microsoft"),
    "function": lambda m: setattr(m.functions.add(name="F"), "domain", "local"),
    "node of a function": lambda m: setattr(m.functions.add().node.add(), "domain", "com.microsoft"),
}


@pytest.fixture
def copy(tiny_bundle: Bundles, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bundle("llama"), tmp_path / "copy"))


@pytest.mark.parametrize("name", CHANGES)
def test_weights_that_lie_elsewhere(name: str, copy: Path) -> None:
    change, words = CHANGES[name]
    model = onnx.load(str(copy / MODEL), load_external_data=False)
    assert model.graph.initializer[0].external_data
    change(model)
    (copy / MODEL).write_bytes(model.SerializeToString())
    with pytest.raises(BadFileError, match=words):
        check_graph(copy)


@pytest.mark.parametrize("name", DOMAINS)
def test_ops_that_are_not_standard(name: str, decoder_bundle: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(decoder_bundle, tmp_path / "copy"))
    check_graph(copy, standard=True)
    model = onnx.load(str(copy / MODEL), load_external_data=False)
    DOMAINS[name](model)
    (copy / MODEL).write_bytes(model.SerializeToString())
    with pytest.raises(BadFileError, match=r"it has ops of the domain '(com\.microsoft|local)'"):
        check_graph(copy, standard=True)


def test_the_whole_load_asks_it(copy: Path) -> None:
    manifest = Manifest.load(copy)
    onnx_forward(copy, manifest, threads=1, spin=False).extend([1])
    (copy / WEIGHTS).write_bytes((copy / WEIGHTS).read_bytes()[:-1])
    with pytest.raises(BadFileError, match=r"a weight lies outside weights\.bin"):
        onnx_forward(copy, manifest, threads=1, spin=False)


@pytest.mark.parametrize(
    "data", [b"\x3a", b"\x3a\xff\xff\xff\xff\x0f", b"\xff" * 30, b"\x3b", b"\x3a\x02\x2a\x7f"]
)
def test_what_is_no_model(data: bytes, copy: Path) -> None:
    (copy / MODEL).write_bytes(data)
    with pytest.raises(BadFileError, match="it is"):
        check_graph(copy)


def test_files_of_a_bundle_do_not_lead_out_of_it(copy: Path, tmp_path: Path) -> None:
    for name in (MODEL, WEIGHTS, TOKENIZER, MANIFEST):
        outside = tmp_path / f"outside-{name}"
        (copy / name).rename(outside)
        (copy / name).symlink_to(outside)
        with pytest.raises(BadFileError, match=f"{name} of the bundle leads out of it"):
            Manifest.load(copy)
        (copy / name).unlink()
        outside.rename(copy / name)
    (copy / WEIGHTS).rename(copy / "blob")
    (copy / WEIGHTS).symlink_to("blob")
    Manifest.load(copy)


def test_a_name_that_is_not_utf8(copy: Path) -> None:
    data = (copy / MODEL).read_bytes()
    (copy / MODEL).write_bytes(data.replace(b"logsumexp", b"log\xffumexp"))
    with pytest.raises(BadFileError, match="not UTF-8"):
        onnx_forward(copy, Manifest.load(copy), threads=1, spin=False)


@pytest.mark.parametrize("name", ["logsumexp", "tokens"])
def test_a_graph_without_an_input_or_output_of_a_pass(name: str, copy: Path) -> None:
    model = onnx.load(str(copy / MODEL), load_external_data=False)
    for node in model.graph.node:
        for side in (node.input, node.output):
            side[:] = ["other" if other == name else other for other in side]
    for info in (*model.graph.input, *model.graph.output):
        info.name = "other" if info.name == name else info.name
    manifest = Manifest.load(copy)
    (copy / MODEL).write_bytes(model.SerializeToString())
    with pytest.raises(BadFileError, match="not the model that its manifest describes"):
        onnx_forward(copy, manifest, threads=1, spin=False)


def test_real_graphs_pass(tiny_bundle: Bundles) -> None:
    for architecture in ("llama", "qwen2", "gemma3"):
        check_graph(tiny_bundle(architecture))
