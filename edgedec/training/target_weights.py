"""Reads weights of an exported target as floats: its embedding table, its head, its last layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.manifest import MODEL, Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.export.draft_head.target import embedding_of, head_of
from edgedec.export.model import attributes
from edgedec.export.stored import GraphWeights

Floats = NDArray[np.float32]


def refuse_experts(manifest: Manifest) -> None:
    """Raise UnsupportedError for a model with experts."""
    if manifest.spec.experts:
        raise UnsupportedError(
            f"{manifest.name} has experts: no head can be trained for it yet",
            hint="lookup and recycling draft for it without training",
        )


class TargetWeights(GraphWeights):
    """The weights of the bundle at ``bundle``, by the names that they have in GGUF files.

    Raises UnsupportedError for a bundle that does not run in EdgeDec's kernels, or that has experts.
    """

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        if manifest.kind != "edgedec":
            raise UnsupportedError(
                f"{manifest.name} does not run in EdgeDec's kernels: nothing can be trained for it",
                hint="export the model for EdgeDec's kernels",
            )
        refuse_experts(manifest)
        super().__init__(bundle, MODEL)
        self.embedding, self.head = embedding_of(self), head_of(self)
        self.epsilon = 1e-5
        self.interleaved = False
        last = f"blk.{manifest.spec.n_layers - 1}."
        for node in self.graph.node:
            if node.op_type == "TreeAttention" and node.name.startswith(last):
                self.interleaved = bool(attributes(node)["interleaved"])
            elif node.op_type == "RMSNorm":
                self.epsilon = float(str(attributes(node)["epsilon"]))
        known = self.has("rotary.inv_freq")
        self.rope_base = _base(self.vector("rotary.inv_freq")) if known else 10_000.0


def _base(inverse: Floats) -> float:
    """Return the base of inverse frequencies base^(-2 i / d), by the first two of them."""
    if inverse.size < 2 or inverse[0] <= 0 or inverse[1] <= 0:
        return 10_000.0
    return float((float(inverse[0]) / float(inverse[1])) ** inverse.size)


class KnownRows:
    """Rows of a table as floats, each unpacked once by ``gather``. Rows that are not used take no memory."""

    def __init__(self, rows: int, cols: int, gather: Callable[[NDArray[np.int64]], Floats]) -> None:
        self._gather = gather
        self._values = np.zeros((rows, cols), dtype=np.float32)
        self._known = np.zeros(rows, dtype=np.bool_)

    def gather(self, ids: NDArray[np.int64]) -> Floats:
        """Return the rows ``ids`` of any shape, f32[..., cols]."""
        wanted = np.unique(ids)
        if (missing := wanted[~self._known[wanted]]).size:
            self._values[missing] = self._gather(missing)
            self._known[missing] = True
        found: Floats = self._values[ids]
        return found
