"""The tables of a target's bundle that a drafter shares, copies from, or brings itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.manifest import MODEL
from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.draft_head.weights import Floats, RowReader
from edgedec.export.model import attributes
from edgedec.export.stored import GraphMatrix, GraphWeights

_EMBEDDING = "embedding"
"""The node that looks tokens up."""
_COMPARED = 64
"""Rows by which two tables are compared."""
_ALIKE = 0.15
"""Rows are the same if they differ by less of their length: as much as 4 bits round away."""


@dataclass(frozen=True, slots=True)
class LastNorm:
    """The norm before the target's head."""

    weight: NDArray[np.float32]
    epsilon: float


def last_norm(bundle: Path) -> LastNorm:
    """Return the norm before the target's head. Raises UnsupportedError for a bundle of another kind."""
    stored = GraphWeights(bundle, MODEL)
    nodes = stored.graph.node
    read = next((node.input[0] for node in nodes if node.op_type == "HeadTopK"), None)
    norm = next((node for node in nodes if read in node.output and node.op_type == "RMSNorm"), None)
    if norm is None or not stored.has(norm.input[1]):
        raise _other(bundle, "norm before its head")
    return LastNorm(stored.vector(norm.input[1]), float(str(attributes(norm)["epsilon"])))


def embedding_table(bundle: Path) -> GraphMatrix:
    """Return the table of token embeddings. Raises UnsupportedError for a bundle of another kind."""
    return embedding_of(GraphWeights(bundle, MODEL))


def head_table(bundle: Path) -> GraphMatrix:
    """Return the table of the model's head. Raises UnsupportedError for a bundle of another kind."""
    return head_of(GraphWeights(bundle, MODEL))


def head_rows(bundle: Path, keep: NDArray[np.int64]) -> Floats:
    """Return the rows ``keep`` of the target's own head, f32[k, d]. Raises UnsupportedError."""
    return head_table(bundle).gather(keep)


def embedding_of(stored: GraphWeights) -> GraphMatrix:
    """Return the table of token embeddings of a graph. Raises UnsupportedError."""
    return _table(stored, "QuantEmbedding")


def head_of(stored: GraphWeights) -> GraphMatrix:
    """Return the table of the head of a graph. Raises UnsupportedError."""
    return _table(stored, "HeadTopK")


def has_targets_table(own: RowReader, bundle: Path) -> bool:
    """Return whether some rows over the whole length of a table are those of the target in ``bundle``.

    They may differ by rounding. The target may have more rows. Raises UnsupportedError.
    """
    theirs = embedding_table(bundle)
    if own.shape[1:] != theirs.shape[1:] or own.shape[0] > theirs.shape[0]:
        return False
    for row in np.linspace(0, own.shape[0] - 1, _COMPARED).astype(int).tolist():
        mine, other = own.read(row, row + 1), theirs.read(row, row + 1)
        if not np.linalg.norm(mine - other) <= _ALIKE * np.linalg.norm(other) + 1e-6:
            return False
    return True


def _table(stored: GraphWeights, op: str) -> GraphMatrix:
    nodes = [node for node in stored.graph.node if node.op_type == op]
    # A model may have tables of embeddings for its layers, too.
    node = next((node for node in nodes if node.name == _EMBEDDING), nodes[0] if nodes else None)
    found = stored.matrices.get(node.input[1]) if node else None
    if found is None:
        raise _other(stored.folder, op)
    return found


def _other(bundle: Path, lacks: str) -> UnsupportedError:
    return UnsupportedError(
        f"no head can draft for the model at {bundle}: its graph has no {lacks}",
        hint="export the model for EdgeDec's kernels",
    )
