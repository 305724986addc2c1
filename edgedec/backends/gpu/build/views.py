"""Ops that compute nothing on a device: other names of values, parts of their rows, and whole numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from edgedec.backends.onnx.graph import OpNode
from edgedec.core.quick_dataclass import dataclass

_NUMBERS = ("tokens", "length", "rows")
"""Inputs out of which a graph computes which rows are wanted. A device computes all rows of a value."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A part of the rows of ``source``, which are cut into ``parts`` alike."""

    source: str
    part: int
    parts: int


@dataclass
class Views:
    """``nodes`` without such ops; their inputs are the values that others were names of."""

    nodes: list[OpNode] = field(default_factory=list)
    columns: dict[str, Columns] = field(default_factory=dict)
    _same: dict[str, str] = field(default_factory=dict)
    _numbers: set[str] = field(default_factory=lambda: set(_NUMBERS))

    @classmethod
    def of(cls, nodes: Iterable[OpNode]) -> Views:
        """Read nodes in order."""
        found = cls()
        for node in nodes:
            found._read(node)
        return found

    def _read(self, node: OpNode) -> None:
        first = self._same.get(node.input(0), node.input(0))
        if self._numbers.issuperset(node.inputs):
            self._numbers.update(node.outputs)
        elif node.op == "Reshape" or (node.op == "Slice" and self._numbers.issuperset(node.inputs[1:])):
            self._same[node.outputs[0]] = first
        elif node.op == "Split" and node.integer("axis") == 1:
            for part, name in enumerate(node.outputs):
                self.columns[name] = Columns(first, part, len(node.outputs))
        else:
            named = tuple(self._same.get(name, name) for name in node.inputs)
            self.nodes.append(replace(node, inputs=named))
