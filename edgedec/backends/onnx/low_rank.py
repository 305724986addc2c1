"""Adapters in the form of LoRA, as nodes of a graph that is about to be loaded.

A linear with a change gets two more linears behind it, whose matrices are floats. The second has the first
result as its residual. ``edgedec.core.low_rank`` states the arithmetic. A gated MLP becomes its two linears
and the product of their results, with the same bits: only so gate and up can be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.core.low_rank import F32, LowRank, Short
from edgedec.kernels.packing.layout import pack

if TYPE_CHECKING:
    import onnx

_DOMAIN = "ai.edgedec"
_FIRST = {"QuantLinear": 3, "GatedMLP": 1}
"""Ops whose weights may change -> the input that has the first of them."""
_PLACE = "given"
"""Name of a file that is never read: ONNX Runtime gets the arrays themselves."""


class LowRankGraph:
    """The graph changes of adapters, and the arrays that its new initializers stand for."""

    def __init__(self, changes: Mapping[str, LowRank]) -> None:
        self.matrices = changes
        """The changes of all adapters together, by the name of the matrix."""
        self.arrays: dict[str, NDArray[np.uint8]] = {}
        """Packed matrices by the name of their initializer. The session reads them where they lie."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def apply(self, data: bytes) -> bytes:
        """Return the model with the changes. Raises UnsupportedError for a tensor that cannot have one."""
        if not self.matrices:
            return data
        import onnx

        model = onnx.load_model_from_string(data)
        self._check(model)
        nodes = [new for node in model.graph.node for new in self._nodes(node, model.graph)]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        changed: bytes = model.SerializeToString()
        return changed

    def _check(self, model: onnx.ModelProto) -> None:
        names = {name for node in model.graph.node for name in _weights(node)}
        for name in sorted(self.matrices.keys() - names):
            raise UnsupportedError(
                f"an adapter changes {name[:80]}, which cannot be changed in this model",
                hint="use one of the linear layers of attention and MLP",
            )

    def _nodes(self, node: onnx.NodeProto, graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        if not any(name in self.matrices for name in _weights(node)):
            yield node
        elif node.op_type == "GatedMLP":
            yield from self._gated(node, graph)
        else:
            yield from self._linear(node, graph)

    def _gated(self, node: onnx.NodeProto, graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        x, gate, up = node.input
        attributes, out = _attributes(node), node.output[0]
        halves = dict(zip((gate, up), attributes["formats"].split(","), strict=True))
        for name, format in halves.items():
            linear = _node(
                "QuantLinear", [x, "", "", name], f"{out}.{name}",
                formats=format, rows=[attributes["rows"]], cols=attributes["cols"], terms=1,
            )  # fmt: skip
            yield from self._linear(linear, graph) if name in self.matrices else [linear]
        activation = attributes["activation"]
        yield _node("GatedProduct", [f"{out}.{up}", f"{out}.{gate}"], out, activation=activation)

    def _linear(self, node: onnx.NodeProto, graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        """Yield a linear, and the two behind it."""
        attributes, names, out = _attributes(node), _weights(node), node.output[0]
        rows, cols = attributes["rows"], attributes["cols"]
        changes = [self.matrices.get(name) for name in names]
        for name, change, height in zip(names, changes, rows, strict=True):
            if change and change.shape != (height, cols):
                found = f"{change.shape[0]} x {change.shape[1]}"
                raise UnsupportedError(
                    f"an adapter changes {name} as if it had {found} numbers, and it has {height} x {cols}",
                    hint="use an adapter of this model",
                )
        down, up = _stacked(changes, rows)
        plain = f"{out}.unchanged"
        node.output[0] = plain
        yield node
        yield self._float(graph, [node.input[0], "", ""], f"{out}.down", down)
        yield self._float(graph, [f"{out}.down", "", plain], out, up)

    def _float(self, graph: onnx.GraphProto, inputs: Sequence[str], out: str, matrix: F32) -> onnx.NodeProto:
        """Return a linear with a matrix of floats, which becomes one of ``arrays``."""
        short, name = Short.of(matrix), f"{out}.low_rank"
        packed = pack(short.format, short.data.view(np.uint8))
        self.arrays[name] = packed
        graph.initializer.append(_initializer(name, packed.shape))
        rows, cols = matrix.shape
        sizes = {"formats": short.format, "rows": [rows], "cols": cols, "terms": 1}
        return _node("QuantLinear", [*inputs, name], out, **sizes)


def _weights(node: onnx.NodeProto) -> list[str]:
    first = _FIRST.get(node.op_type) if node.domain == _DOMAIN else None
    return [] if first is None else list(node.input[first:])


def _stacked(changes: Iterable[LowRank | None], rows: Sequence[int]) -> tuple[F32, F32]:
    """Return the matrices of a linear over several weights: each reads its own rows of the first result.

    The zeros beside them add nothing: a product with 0 leaves a sum as it is.
    """
    changed = list(changes)
    down = np.concatenate([change.down for change in changed if change])
    up = np.zeros((sum(rows), len(down)), np.float32)
    row = column = 0
    for change, height in zip(changed, rows, strict=True):
        if change:
            up[row : row + height, column : column + change.rank] = change.up
            column += change.rank
        row += height
    return down, up


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    from onnx import helper

    found = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


def _node(op: str, inputs: Sequence[str], out: str, **attributes: Any) -> onnx.NodeProto:
    from onnx import helper

    return helper.make_node(op, list(inputs), [out], name=out, domain=_DOMAIN, **attributes)


def _initializer(name: str, dims: Sequence[int]) -> onnx.TensorProto:
    import onnx

    tensor = onnx.TensorProto(name=name, dims=dims, data_type=onnx.TensorProto.UINT8)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", _PLACE), ("offset", "0"), ("length", str(int(np.prod(dims))))):
        tensor.external_data.add(key=key, value=value)
    return tensor
