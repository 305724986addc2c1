"""Reads a drafting head back from its bundle, as floats with the formats that its matrices have there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from edgedec.core.drafter_manifest import DrafterManifest, Target
from edgedec.core.errors import BadFileError
from edgedec.core.head_facts import GRAPH
from edgedec.core.manifest import WEIGHTS
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.export.model import attributes
from edgedec.kernels.packing.layout import dequantise


@dataclass(frozen=True, slots=True)
class InstalledHead:
    """``formats`` are those of the matrices, by the names that ``weights`` has for them."""

    weights: HeadWeights
    formats: Mapping[str, str]


def read_head(folder: Path, target: Target) -> InstalledHead:
    """Read the head in ``folder``, which must be one for ``target``.

    Raises NotFoundError, and BadFileError for a damaged one or one of another target.
    """
    DrafterManifest.load(folder).check_target(target)
    try:
        return _read(onnx.load(str(folder / GRAPH), load_external_data=False).graph, folder / WEIGHTS)
    except BadFileError:
        raise
    except Exception as error:  # a damaged graph fails in protobuf, NumPy or by a name that it lacks
        raise BadFileError(f"{folder} holds no drafting head", hint="train it again") from error


def _read(graph: onnx.GraphProto, file: Path) -> InstalledHead:
    stored = {tensor.name: tensor for tensor in graph.initializer}
    data = np.memmap(file, dtype=np.uint8, mode="r")
    arrays: dict[str, NDArray[Any]] = {}
    formats: dict[str, str] = {}
    for node in graph.node:
        facts = attributes(node)
        if node.op_type in ("QuantLinear", "GatedMLP", "HeadTopK"):
            for name, format, rows in _matrices(node, facts, stored):
                cols = int(str(facts["cols"]))
                packed = _bytes(stored[name], data).reshape(tuple(stored[name].dims))
                arrays[name], formats[name] = dequantise(format, packed, rows, cols), format
        elif node.op_type == "RMSNorm":
            name = node.input[1]
            arrays[name] = _vector(stored[name], data)
            arrays["epsilon"] = np.array(float(str(facts["epsilon"])))
        elif node.op_type == "TreeAttention":
            names = {"heads": "num_heads", "kv_heads": "num_kv_heads", "head_dim": "head_dim"}
            arrays |= {mine: np.array(int(str(facts[theirs]))) for mine, theirs in names.items()}
        elif node.op_type == "Constant" and node.output[0] == "keep":
            arrays["keep"] = numpy_helper.to_array(node.attribute[0].t)
    inverse = _vector(stored["inv_freq"], data).astype(np.float64)
    steps = inverse.size / (inverse.size - 1)  # the last frequency tells the base best
    arrays["rope_base"] = np.array(float(f"{inverse[-1] ** -steps:.6g}"))
    arrays["hidden"] = np.array(arrays["output_norm"].size)
    arrays["ffn"] = np.array(len(arrays["ffn_up"]))
    return InstalledHead(HeadWeights.of(arrays), formats)


def _matrices(
    node: onnx.NodeProto, facts: Mapping[str, Any], stored: Mapping[str, onnx.TensorProto]
) -> list[tuple[str, str, int]]:
    """Return name, format and rows of each matrix of an op."""
    names = [name for name in node.input if name in stored and len(stored[name].dims) == 2]
    formats = str(facts.get("formats", facts.get("format"))).split(",")
    rows = facts["rows"] if isinstance(facts["rows"], list) else [facts["rows"]] * len(names)
    return list(zip(names, formats, rows, strict=True))


def _vector(tensor: onnx.TensorProto, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.array(_bytes(tensor, data).view("<f4"), dtype=np.float32)


def _bytes(tensor: onnx.TensorProto, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if not tensor.external_data:
        return np.frombuffer(tensor.raw_data, dtype=np.uint8)
    place = {entry.key: int(entry.value) for entry in tensor.external_data if entry.key != "location"}
    return np.asarray(data[place["offset"] : place["offset"] + place["length"]])
