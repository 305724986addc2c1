"""Bundles as earlier versions made them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import onnx

from edgedec.core.files import sha256_of
from edgedec.core.manifest import MODEL, FileEntry, Manifest


def without_attention(bundle: Path) -> None:
    """Change ``bundle``'s graph to one of when it did not say what attention fell on."""
    model = onnx.load(str(bundle / MODEL), load_external_data=False)
    _drop_attention(model)
    (bundle / MODEL).write_bytes(model.SerializeToString())


def _drop_attention(model: onnx.ModelProto) -> None:
    del model.functions[:]  # what is left is for the kernels
    for values in (model.graph.input, model.graph.initializer):
        for value in [value for value in values if value.name == "attention"]:
            values.remove(value)
    for node in model.graph.node:
        node.overload = ""
        if node.op_type == "TreeAttention":
            del node.input[7:]


def without_rings(bundle: Path, out: Path) -> Path:
    """A copy of ``bundle`` at ``out`` in which every layer keeps the whole context, in one input."""
    shutil.copytree(bundle, out)
    manifest = Manifest.load(bundle)
    model = onnx.load(str(out / MODEL), load_external_data=False)
    _drop_attention(model)
    inputs = {value.name: value for value in model.graph.input}
    inputs["kv_cache"].type.tensor_type.shape.dim[0].dim_value = manifest.spec.n_layers
    model.graph.input.remove(inputs["kv_window"])
    for node in model.graph.node:
        if node.op_type == "TreeAttention":
            node.input[4] = "kv_cache"
            kept = [a for a in node.attribute if a.name not in ("ring", "layer")]
            del node.attribute[:]
            layer = int(node.name.split(".")[1])
            node.attribute.extend([*kept, onnx.helper.make_attribute("layer", layer)])
    (out / MODEL).write_bytes(model.SerializeToString())
    files = {**manifest.files, MODEL: FileEntry((out / MODEL).stat().st_size, sha256_of(out / MODEL))}
    spec = replace(manifest.spec, n_window_layers=0, window=0)
    replace(manifest, spec=spec, files=files).save(out)
    return out
