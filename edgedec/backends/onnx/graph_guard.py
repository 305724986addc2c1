"""Checks of a bundle's graph before ONNX Runtime opens it.

Its weights must lie in the bundle, whole. All ops of a graph without EdgeDec's kernels must be standard ones.

ONNX Runtime checks much of this itself, each version another part of it, and a weight that is mapped from
beyond the end of a file kills the process at its first use.
"""

from __future__ import annotations

from pathlib import Path

from edgedec.bundle.manifest import MODEL, WEIGHTS
from edgedec.core.errors import BadFileError
from edgedec.kernels import library

_AGAIN = "pull or export the model again"
_MOST_BYTES = 64 << 20


def check_graph(bundle: Path, graph: str = MODEL, *, standard: bool = False) -> bytes:
    """Return the file ``graph``. Raises BadFileError unless its external tensors lie inside ``weights.bin``.

    Their bytes have to end before that file does, and have to be as many as type and shape take. With
    ``standard``, no op may be of another domain than ONNX's own: ONNX Runtime has ops that read files.
    """
    try:
        with (bundle / graph).open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        size = (bundle / WEIGHTS).stat().st_size
    except OSError as error:
        raise _refused(graph, f"it cannot be read ({error.strerror})") from error
    if len(data) > _MOST_BYTES:
        raise _refused(graph, f"it is larger than {_MOST_BYTES} bytes")
    if why := library.wrong_with_graph(data, size, standard=standard):
        raise _refused(graph, why)
    return data


def other_model(graph: str) -> BadFileError:
    """Return the error of a graph that is not the one of the manifest's model."""
    return BadFileError(f"{graph} of the bundle is not the model that its manifest describes", hint=_AGAIN)


def _refused(graph: str, why: str) -> BadFileError:
    return BadFileError(f"{graph} of the bundle is broken: {why}", hint=_AGAIN)
