"""Inputs and outputs of a small graph that runs often: arrays made once, and a binding for each shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.head_rows import check_finite
from edgedec.backends.onnx.session import bound_run, one_line_errors
from edgedec.bundle.table_facts import TableFacts
from edgedec.core.errors import BadFileError
from edgedec.core.rows import HeadRows
from edgedec.core_lib.layer_drafters import HeadPass

_MOST_KEPT = 64
AGAIN = "make the drafter again, or remove it"

Array = NDArray[Any]
Counts = Mapping[str, int]
"""Numbers of rows of a shape, by what is counted."""


class StepBuffers:
    """``inputs`` and ``outputs``: by name an array for the longest step, and what its rows count ("": one).

    ``shared``: further inputs, by name, which are bound as they are.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        inputs: Mapping[str, tuple[Array, str]],
        outputs: Mapping[str, tuple[Array, str]],
        shared: Mapping[str, Array],
    ) -> None:
        self._session, self._shared = session, shared  # a binding holds bare pointers: keep their owners
        self._inputs, self._outputs = inputs, outputs
        self._runs: dict[tuple[tuple[str, int], ...], Callable[[], None]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, and of the copies of results that ``run`` returns."""
        results = sum(array.nbytes for array, _ in self._outputs.values())
        return 2 * results + sum(array.nbytes for array, _ in self._inputs.values())

    def run(self, counts: Counts, values: Mapping[str, Sequence[int] | Array | None]) -> dict[str, Array]:
        """Compute a step; ``values`` are its inputs by name, None for one without elements."""
        for name, given in values.items():
            if given is not None:
                self._inputs[name][0][: len(given)] = given
        self._bound(counts)()
        return {name: _part(array, what, counts).copy() for name, (array, what) in self._outputs.items()}

    def _bound(self, counts: Counts) -> Callable[[], None]:
        key = tuple(counts.items())
        if key not in self._runs:
            if len(self._runs) == _MOST_KEPT:
                self._runs.clear()
            binding = self._session.io_binding()
            self._runs[key] = bound_run(self._session, binding)
            inputs = {name: _part(array, what, counts) for name, (array, what) in self._inputs.items()}
            outputs = {name: _part(array, what, counts) for name, (array, what) in self._outputs.items()}
            for bind, arrays in (
                (binding.bind_input, {**inputs, **self._shared}),
                (binding.bind_output, outputs),
            ):
                for name, array in arrays.items():
                    bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return self._runs[key]


def _part(array: Array, what: str, counts: Counts) -> Array:
    return array[: counts[what] if what else 1]


def head_outputs(rows: int, k: int) -> dict[str, tuple[Array, str]]:
    """Return the outputs of a head for at most ``rows`` rows."""
    return {
        "values": (np.empty((rows, k), np.float32), "rows"),
        "ids": (np.empty((rows, k), np.int32), "rows"),
        "logsumexp": (np.empty(rows, np.float32), "rows"),
        "entropy": (np.empty(rows, np.float32), "rows"),
    }


def found_pass(found: Mapping[str, Array], vocab_size: int, what: str, *, padded: bool = True) -> HeadPass:
    """Return the outputs of a step; ``padded``: rows of few ids end with -1.

    Raises BadFileError for ids outside the vocabulary.
    """
    check_finite(found["logsumexp"])
    ids = found["ids"]
    if ids.size and not -padded <= ids.min() <= ids.max() < vocab_size:
        raise BadFileError(f"{what} predicts ids outside the vocabulary", hint=AGAIN)
    rows = HeadRows(found["values"], ids, found["logsumexp"], found["entropy"])
    return HeadPass(rows, found["out"])


def mapped_table(weights: Path, table: TableFacts, what: str) -> NDArray[np.uint8]:
    """Map a table of the target. Raises BadFileError where the target's weights end before it."""
    if table.offset + table.nbytes > weights.stat().st_size:
        raise BadFileError(f"{what} expects a table outside the weights of its target", hint=AGAIN)
    return np.memmap(weights, np.uint8, "r", table.offset, (table.tiles, table.tile_bytes))


Shapes = Mapping[str, list[Any]]


def shapes_of(session: ort.InferenceSession, graph: str) -> dict[str, list[Any]]:
    """Return the shape of each input and output, by name."""
    with one_line_errors(loading=True, graph=graph):
        return {node.name: node.shape for node in (*session.get_inputs(), *session.get_outputs())}


def fits(shapes: Shapes, rows: Shapes, tables: Mapping[str, TableFacts], others: Iterable[str]) -> bool:
    """Return whether ``shapes`` are those of ``rows`` behind a first dimension, ``tables`` and ``others``."""
    return (
        shapes.keys() == {*rows, *tables, *others}
        and all(shapes[name][1:] == rest for name, rest in rows.items())
        and all(shapes[name] == [one.tiles, one.tile_bytes] for name, one in tables.items())
    )


def head_shapes(k: int) -> dict[str, list[Any]]:
    """Return the shapes of a row of the outputs of a head."""
    return {"values": [k], "ids": [k], "logsumexp": [], "entropy": []}
