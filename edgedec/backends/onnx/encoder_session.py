"""Passes of an encoder: several whole texts, one behind the other, become a vector each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.onnx.graph_guard import other_model
from edgedec.backends.onnx.session import one_line_errors, open_session
from edgedec.bundle.manifest import MODEL, WEIGHTS, Manifest
from edgedec.core.errors import BackendError
from edgedec.kernels.library import read_ahead

_INPUTS = {"tokens", "positions", "offsets"}
_TYPES, _OUTPUT = "types", "vectors"


class EncoderSession:
    """An encoder's graph in ONNX Runtime. Raises the errors of ``open_session``."""

    def __init__(self, bundle: Path, manifest: Manifest, threads: int | None) -> None:
        facts = manifest.embedding
        assert facts is not None, "the manifest is an encoder's"
        read_ahead(bundle / WEIGHTS, manifest.spec.table_bytes)
        self._session = open_session(bundle, threads)
        with one_line_errors(loading=True):
            inputs = {node.name for node in self._session.get_inputs()}
            outputs = {node.name: node.shape for node in self._session.get_outputs()}
        if inputs - {_TYPES} != _INPUTS or outputs.get(_OUTPUT, [])[1:] != [facts.size]:
            raise other_model(MODEL)
        self._typed = _TYPES in inputs
        self._turn = Lock()
        """Held during a pass, which takes all threads."""

    def run(self, texts: Sequence[Sequence[int]], types: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return f32[texts, size] of texts of at least one token each. Raises BackendError."""
        lengths = [len(text) for text in texts]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        feed = {
            "tokens": _joined(texts),
            "positions": np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], lengths),
            "offsets": offsets,
        }
        if self._typed:
            feed[_TYPES] = _joined(types)
        with self._turn, one_line_errors():
            found: NDArray[np.float32] = self._session.run([_OUTPUT], feed)[0]
        if not np.isfinite(found).all():
            raise BackendError("a vector is no number: keys or values of the model are too large for halves")
        return found


def _joined(parts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
