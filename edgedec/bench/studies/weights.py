"""Bytes of weights that a pass over one token reads, from the graph of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.manifest import GGUF, MODEL
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.mbsu import Weights

if TYPE_CHECKING:
    from onnx import TensorProto

_HEAD, _EMBEDDING = ("HeadTopK", 1), ("QuantEmbedding", 1)
"""Ops and the inputs that are their tables."""


@dataclass(frozen=True, slots=True)
class PassWeights:
    """Bytes by use. ``streamed``: all that every pass reads from end to end, ``head`` included.

    ``lookup``: an embedding table that is not the head's table too; a pass reads the rows of its tokens
    alone. All of a GGUF file counts as streamed, and nothing as its head.
    """

    streamed: int
    head: int = 0
    lookup: int = 0

    def trimmed(self, share: float) -> Weights:
        """The weights of a pass that reads ``share`` of the head's rows, as ``mbsu`` takes them.

        Rows of a head that is the embedding too are still looked up, and so remain parameters.
        """
        unread = (1.0 - share) * self.head
        return Weights(self.streamed - unread, self.lookup or unread)


def pass_weights(bundle: Path) -> PassWeights:
    """Measure the weights of a bundle. Raises BadFileError when the graph cannot be read."""
    import onnx
    from google.protobuf.message import DecodeError

    if (bundle / GGUF).is_file():
        return PassWeights((bundle / GGUF).stat().st_size)
    try:
        npu = sorted(bundle.glob("verify_*.onnx"))
        graph = onnx.load(str(npu[0] if npu else bundle / MODEL), load_external_data=False).graph
    except (OSError, DecodeError) as error:
        raise BadFileError(f"the graph of {bundle} cannot be read", hint="export the model again") from error
    uses = [(node.op_type, index, name) for node in graph.node for index, name in enumerate(node.input)]
    head = {name for op, index, name in uses if (op, index) == _HEAD}
    tables = {name for op, index, name in uses if (op, index) == _EMBEDDING}
    read = {name for op, index, name in uses if (op, index) != _EMBEDDING}

    def total(names: set[str]) -> int:
        return sum(_bytes(tensor) for tensor in graph.initializer if tensor.name in names)

    return PassWeights(total(read), total(head), total(tables - read))


def _bytes(tensor: TensorProto) -> int:
    lengths = [int(entry.value) for entry in tensor.external_data if entry.key == "length"]
    return lengths[0] if lengths else len(tensor.raw_data)
