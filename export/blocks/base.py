"""The builder that all blocks add their nodes to."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgedec.export.builder import GraphBuilder
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.model import ExportModel, VectorWeight
from edgedec.export.tensors import Part, Tensors


class BlockBuilder(GraphBuilder):
    """A builder that knows the sizes of the model, its norms and its linears."""

    both_ways: bool | None = None
    """Whether a token sees those behind it, in a graph over whole texts; None: a graph with a KV cache."""

    def __init__(self, model: ExportModel, tensors: Tensors, hyper: Hyperparameters) -> None:
        super().__init__(model, tensors)
        self.hyper, self.arch = hyper, hyper.architecture

    def norm(self, name: str, x: str, factor: float = 1.0) -> str:
        """Add the norm ``name``, and multiply its output by a constant."""
        weight = self.vector(name + ".weight", self.hyper.hidden)
        if factor != 1.0:
            values = self.tensors.vector(weight, self.hyper.hidden).values
            self.model.weights[weight] = VectorWeight(values * np.float32(factor))
        return self.op("RMSNorm", name, [x, weight], epsilon=self.hyper.epsilon)

    def row(self, name: str, x: str, cols: int, terms: int = 1) -> str:
        """Multiply ``x`` by the matrix ``name`` of one row."""
        weight = f"{name}.weight"
        self.model.weights[weight] = self.tensors.row(weight, cols)
        return self.products(name, x, [weight], terms=terms)

    def linear(
        self,
        name: str,
        x: str,
        shape: tuple[int, int],
        bias: bool = False,
        terms: int = 1,
        part: Part | None = None,
    ) -> str:
        """Multiply ``x`` by the matrix ``name`` of ``shape`` (rows, columns)."""
        rows, cols = shape
        weight = self.matrix(name + ".weight", rows, cols, part)
        added = self.vector(name + ".bias", rows) if bias else ""
        return self.products(name, x, [weight], bias=added, terms=terms)


def softcap(cap: float) -> dict[str, Any]:
    """The attribute of ops that know a softcap, left out where there is none."""
    return {"softcap": cap} if cap else {}


def without_end(inputs: list[str]) -> list[str]:
    """Return the inputs of a node without empty ones at their end."""
    count = max(at + 1 for at, name in enumerate(inputs) if name)
    return inputs[:count]
