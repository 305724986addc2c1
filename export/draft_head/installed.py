"""Reads a drafting head back from its bundle, as floats with the formats that its matrices have there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from edgedec.bundle.drafter_manifest import DrafterManifest, Target
from edgedec.bundle.head_facts import GRAPH, TAPS, HeadFacts
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.listed_files import Scalar
from edgedec.export.blocks.rotary import inverse_frequencies
from edgedec.export.draft_head.weights import FLAGS, HeadWeights
from edgedec.export.model import attributes
from edgedec.export.stored import GraphWeights
from edgedec.kernels.packing.layout import TILE, dequantise


@dataclass(frozen=True, slots=True)
class InstalledHead:
    """``formats`` are those of the matrices, by the names that ``weights`` has for them."""

    weights: HeadWeights
    formats: Mapping[str, str]


def read_head(folder: Path, target: Target) -> InstalledHead:
    """Read the head in ``folder``, which must be one for ``target``.

    Raises NotFoundError, and BadFileError for a damaged one or one of another target.
    """
    manifest = DrafterManifest.load(folder)
    manifest.check_target(target)
    facts = HeadFacts.of(manifest.facts)
    try:
        return _read(GraphWeights(folder, GRAPH), manifest.facts, facts)
    except BadFileError:
        raise
    except Exception as error:  # a damaged graph fails in protobuf, NumPy or by a name that it lacks
        raise BadFileError(f"{folder} holds no drafting head", hint="train it again") from error


def _read(stored: GraphWeights, stated: Mapping[str, Scalar], sizes: HeadFacts) -> InstalledHead:
    found = stored.matrices
    arrays: dict[str, NDArray[Any]] = {
        name: dequantise(one.format, one.packed, one.rows, one.cols) for name, one in found.items()
    }
    formats = {name: one.format for name, one in found.items()}
    embedding = None
    for node in stored.graph.node:
        facts = attributes(node)
        if node.op_type == "RMSNorm":
            name = node.input[1]
            arrays[name] = stored.vector(name)
            arrays["epsilon"] = np.array(float(str(facts["epsilon"])))
        elif node.op_type == "TreeAttention":
            names = {"heads": "num_heads", "kv_heads": "num_kv_heads", "head_dim": "head_dim"}
            arrays |= {mine: np.array(int(str(facts[theirs]))) for mine, theirs in names.items()}
            arrays |= {name: stored.vector(name) for name in node.input[5:7] if name}
        elif node.op_type == "QuantEmbedding" and stored.has(node.input[1]):
            table = stored.matrix(node.input[1], facts)
            formats["embedding"] = table.format
            embedding = PackedRows(table.format, table.packed, (table.rows, table.cols))
        elif node.op_type == "Constant" and node.output[0] == "keep":
            arrays["keep"] = numpy_helper.to_array(node.attribute[0].t)
    inverse = stored.vector("inv_freq").astype(np.float64)
    arrays |= _rotary(inverse, stated.get("rope_base"))
    arrays["hidden"] = np.array(arrays["output_norm"].size)
    arrays["ffn"] = np.array(len(arrays["ffn_up"]))
    if "norm_taps.0" in arrays:
        arrays["norm_taps"] = np.concatenate([arrays.pop(f"norm_taps.{at}") for at in range(TAPS)])
    arrays |= {name: np.array(stated.get(name) is True) for name in FLAGS}
    arrays["taps"] = np.array(sizes.taps, np.int64)
    arrays["tap_size"] = np.array(0 if sizes.tap_size == sizes.hidden else sizes.tap_size)
    return InstalledHead(replace(HeadWeights.of(arrays), embedding=embedding), formats)


def _rotary(inverse: NDArray[np.float64], base: Scalar) -> dict[str, NDArray[Any]]:
    """Return the base of frequencies, and their divisors where they are not all 1."""
    if not isinstance(base, int | float):
        steps = inverse.size / (inverse.size - 1)  # the last frequency tells the base best
        return {"rope_base": np.array(float(f"{inverse[-1] ** -steps:.6g}"))}
    plain = inverse_frequencies(float(base), 2 * inverse.size)
    factors = (plain / inverse).astype(np.float32)
    found: dict[str, NDArray[Any]] = {"rope_base": np.array(float(base))}
    return found if np.array_equal(factors, np.ones_like(factors)) else {**found, "rope_factors": factors}


@dataclass(frozen=True, slots=True)
class PackedRows:
    """A packed table, read by rows: floats f32[rows, columns]."""

    format: str
    packed: NDArray[np.uint8]
    shape: tuple[int, int]

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """See ``weights.RowReader``."""
        first, cols = start // TILE, self.shape[1]
        tiles = self.packed[first : -(-stop // TILE)]
        values = dequantise(self.format, tiles, len(tiles) * TILE, cols)
        return values[start - first * TILE : stop - first * TILE]
