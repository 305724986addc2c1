"""A graph on a device, as passes use it: the seam between ``NpuModel`` and the runtimes."""

from __future__ import annotations

from typing import Any, Protocol

import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.onnx.session import one_line_errors
from edgedec.core.quick_dataclass import dataclass

Feeds = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a graph. ``dtype``: as NumPy names it."""

    dtype: str
    shape: tuple[int, ...]


class Session(Protocol):
    """A loaded graph."""

    title: str
    """The device, for people."""
    inputs: dict[str, Port]
    outputs: dict[str, Port]

    def run(self, wanted: list[str], feeds: Feeds) -> list[NDArray[Any]]:
        """Compute the outputs ``wanted``, in this order. Raises BackendError."""


class OrtSession:
    """The ``Session`` of ONNX Runtime, with or without a plug-in."""

    def __init__(self, session: ort.InferenceSession, title: str, graph: str) -> None:
        self.title, self._session, self._graph = title, session, graph
        with one_line_errors(loading=True, graph=graph):
            self.inputs = _ports(session.get_inputs())
            self.outputs = _ports(session.get_outputs())

    def run(self, wanted: list[str], feeds: Feeds) -> list[NDArray[Any]]:
        """See ``Session.run``."""
        with one_line_errors(graph=self._graph):
            found: list[NDArray[Any]] = self._session.run(wanted, feeds)
        return found


def _ports(nodes: list[ort.NodeArg]) -> dict[str, Port]:
    return {node.name: Port(_dtype(node.type), tuple(node.shape)) for node in nodes}


def _dtype(kind: str) -> str:
    name = kind.removeprefix("tensor(").removesuffix(")")
    return "float32" if name == "float" else name
