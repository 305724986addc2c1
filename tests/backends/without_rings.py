"""A bundle of a model with windows whose layers all keep the whole context, to compare rings with."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import onnx

from edgedec.bundle.manifest import MODEL, FileEntry, Manifest
from edgedec.disk.files import sha256_of


def write_without_rings(bundle: Path, out: Path) -> Path:
    """A copy of ``bundle`` at ``out`` in which every layer keeps the whole context, in one input."""
    shutil.copytree(bundle, out)
    manifest = Manifest.load(bundle)
    model = onnx.load(str(out / MODEL), load_external_data=False)
    del model.functions[:]  # the rest is for the kernels
    inputs = {value.name: value for value in model.graph.input}
    inputs["kv_cache"].type.tensor_type.shape.dim[0].dim_value = manifest.spec.n_layers
    model.graph.input.remove(inputs["kv_window"])
    if "attention" not in inputs:  # every layer had a window
        nothing = onnx.helper.make_tensor("attention", onnx.TensorProto.FLOAT, [0, 0, 0], [])
        model.graph.initializer.append(nothing)
        shape = [None, None, None]
        value = onnx.helper.make_tensor_value_info("attention", onnx.TensorProto.FLOAT, shape)
        model.graph.input.append(value)
    for node in model.graph.node:
        node.overload = ""
        if node.op_type == "TreeAttention":
            sinks = node.input[9:]
            del node.input[7:]
            node.input.extend(["", "", *sinks] if sinks else [])
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
