"""The base of builders of graphs: nodes, and weights that stay in their source until they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import helper

from edgedec.export.model import DOMAIN, ExportModel, PackedWeight
from edgedec.export.stored import GraphMatrix
from edgedec.export.tensors import Part, Tensors


class GraphBuilder:
    """Adds nodes and weights to ``model``; the weights come from ``tensors``, by their names."""

    def __init__(self, model: ExportModel, tensors: Tensors) -> None:
        self.model, self.tensors = model, tensors

    def op(self, kind: str, name: str, inputs: list[str], *, domain: str = DOMAIN, **attrs: Any) -> str:
        """Add a node with one output of its own name, and return that name."""
        self.node(kind, name, inputs, [name], domain=domain, **attrs)
        return name

    def node(
        self,
        kind: str,
        name: str,
        inputs: list[str],
        outputs: list[str],
        domain: str = DOMAIN,
        **attrs: Any,
    ) -> None:
        """Add a node."""
        self.model.nodes.append(helper.make_node(kind, inputs, outputs, name=name, domain=domain, **attrs))

    def matrix(self, name: str, rows: int, cols: int, part: Part | None = None) -> str:
        """Add a quantised matrix, and return its name. Raises BadFileError or UnsupportedError."""
        self.model.weights[name] = self.tensors.matrix(name, rows, cols, part)
        return name

    def vector(self, name: str, size: int) -> str:
        """Add a vector, and return its name. Raises BadFileError or UnsupportedError."""
        self.model.weights[name] = self.tensors.vector(name, size)
        return name

    def array(self, name: str, shape: tuple[int, int]) -> str:
        """Add a small matrix of floats, and return its name. Raises BadFileError or UnsupportedError."""
        self.model.weights[name] = self.tensors.array(name, shape)
        return name

    def reshape(self, name: str, x: str, shape: tuple[int, ...]) -> str:
        """Add a view of ``x`` of another shape, and return its name."""
        return self.op("Reshape", name, [x, self.constant(f"{name}_shape", shape)], domain="")

    def constant(self, name: str, values: Sequence[int]) -> str:
        """Add a vector of int64, and return its name."""
        return self.op("Constant", name, [], domain="", value_ints=list(values))

    def products(
        self, name: str, x: str, matrices: list[str], *, bias: str = "", residual: str = "", terms: int = 1
    ) -> str:
        """Multiply ``x`` by matrices that were added, one below the other."""
        each = [self._added(matrix) for matrix in matrices]
        return self.op(
            "QuantLinear",
            name,
            [x, bias, residual, *matrices],
            formats=",".join(one.format for one in each),
            rows=[one.rows for one in each],
            cols=each[0].cols,
            terms=terms,
        )

    def gated(self, name: str, x: str, matrices: list[str], activation: str) -> str:
        """Compute act(gate x) * (up x) with two matrices that were added."""
        gate, up = (self._added(matrix) for matrix in matrices)
        facts: dict[str, Any] = {
            "formats": f"{gate.format},{up.format}",
            "rows": gate.rows,
            "cols": gate.cols,
        }
        return self.op("GatedMLP", name, [x, *matrices], **facts, activation=activation)

    def table(self, matrix: str) -> dict[str, Any]:
        """Return what an op states of a matrix whose rows it looks up, or takes the best products of."""
        return table_facts(self._added(matrix))

    def _added(self, matrix: str) -> PackedWeight:
        weight = self.model.weights[matrix]
        assert isinstance(weight, PackedWeight)
        return weight


def table_facts(table: PackedWeight | GraphMatrix) -> dict[str, Any]:
    """Return the attributes that say what a table is."""
    return {"format": table.format, "rows": table.rows, "cols": table.cols}
