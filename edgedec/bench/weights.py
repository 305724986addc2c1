"""How many bytes of weights a pass has to read."""

from __future__ import annotations

from pathlib import Path

from edgedec.core.errors import BadFileError
from edgedec.core.manifest import GGUF, MODEL


def bytes_per_pass(bundle: Path) -> int:
    """Bytes of the initialisers that every pass reads from end to end.

    That is all of them but an embedding table that is not the head's table too: of that one only the rows of
    the pass's tokens are read. Of a GGUF file: all. Raises BadFileError when the graph cannot be read.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if (bundle / GGUF).is_file():
        return (bundle / GGUF).stat().st_size
    try:
        graph = onnx.load(str(bundle / MODEL), load_external_data=False).graph
    except (OSError, DecodeError) as error:
        raise BadFileError(f"the graph of {bundle} cannot be read", hint="export the model again") from error
    read = {
        name
        for node in graph.node
        for index, name in enumerate(node.input)
        if not (node.op_type == "QuantEmbedding" and index == 1)
    }
    return sum(_size(tensor) for tensor in graph.initializer if tensor.name in read)


def _size(tensor: object) -> int:
    import onnx

    assert isinstance(tensor, onnx.TensorProto)
    for entry in tensor.external_data:
        if entry.key == "length":
            return int(entry.value)
    return len(tensor.raw_data)
