"""Builds a body out of standard ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edgedec.export.model import DOMAIN, OPSET


class Body:
    """The nodes of one function.

    Values are names, which begin with ``prefix``. Python numbers and arrays become constants.
    """

    def __init__(self, prefix: str = "v") -> None:
        self._prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def op(self, kind: str, *inputs: str | Operand, domain: str = "", **attrs: Any) -> str:
        """Append a node with one output, and return that output's name."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        return self.node(kind, names, 1, domain, **attrs)[0]

    def node(self, kind: str, inputs: Sequence[str], outputs: int, domain: str, **attrs: Any) -> list[str]:
        """Append a node with several outputs, and return their names."""
        first = f"{self._prefix}{len(self.nodes)}"
        names = [f"{first}_{i}" if i else first for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attrs))
        return names

    def constant(self, value: Operand) -> str:
        """Return the name of a constant: f32 for Python floats, int64 for ints and lists of ints."""
        if isinstance(value, float):
            value = np.float32(value)
        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.op("Constant", value=numpy_helper.from_array(array))
        return self._constants[key]

    def attribute(self, name: str) -> str:
        """Return an integer attribute of the calling node, as an int64 vector of one element."""
        node = onnx.NodeProto(op_type="Constant", output=[f"{self._prefix}{len(self.nodes)}"])
        node.attribute.add(name="value_int", type=onnx.AttributeProto.INT, ref_attr_name=name)
        self.nodes.append(node)
        return self.op("Reshape", node.output[0], [1])

    def cast(self, x: str, to: int) -> str:
        return self.op("Cast", x, to=to)

    def reshape(self, x: str, *shape: int) -> str:
        """Reshape a value: ``0`` keeps a dimension, ``-1`` takes the elements that are left."""
        return self.op("Reshape", x, list(shape))

    def slice(self, x: str, start: int, end: int, axis: int) -> str:
        return self.op("Slice", x, [start], [end], [axis])

    def element(self, x: str, index: int, axis: int) -> str:
        """Take one index of an axis and drop the axis."""
        return self.op("Gather", x, np.int64(index), axis=axis)

    def size(self, x: str, axis: int) -> str:
        """Return the length of an axis, as an int64 vector of one element."""
        return self.op("Shape", x, start=axis, end=axis + 1)

    def function(
        self,
        name: str,
        overload: str,
        inputs: Sequence[str],
        results: Sequence[str],
        outputs: Sequence[str],
        attributes: Sequence[str] = (),
    ) -> onnx.FunctionProto:
        """Return the finished function; ``results`` are the values that become ``outputs``."""
        nodes = list(self.nodes)
        for result, output in zip(results, outputs, strict=True):
            nodes.append(helper.make_node("Identity", [result], [output]))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        made = helper.make_function(DOMAIN, name, inputs, outputs, nodes, opsets, attributes)
        made.overload = overload
        return made


Operand = float | int | list[int] | NDArray[Any] | np.generic
BodyBuilder = Callable[[Body, dict[str, Any], list[str]], list[str]]
"""Function from a body, the node's attributes and its inputs ("" where absent) to its results."""
