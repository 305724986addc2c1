"""Goes backwards through a model in NumPy, and hands out the squares of the derivatives of weights.

Values inside a layer are computed again on the way back: those between layers are all that is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.calibration.backward import BACKWARD, attention
from edgedec.export.calibration.evaluate import F32, Floats, Run
from edgedec.export.model import ExportModel, PackedWeight, attributes

_LAYER_ENDS = re.compile(r"blk\.\d+\.out")
_CHUNK = 4 << 20
"""Elements of a matrix read at a time."""
_KEPT = 1 << 20
"""Elements of a matrix whose derivatives are computed: those of the rows with the largest ones."""
_ABLE = {*BACKWARD, "QuantEmbedding", "QuantLinear", "TreeAttention", "HeadTopK", "RotaryTable", "Constant"}


@dataclass(frozen=True, slots=True)
class Slopes:
    """Some rows f32[n, K] of a matrix, and the squared derivatives of their weights, summed over windows.

    All rows together have ``share`` times as much.
    """

    weight: PackedWeight
    rows: F32
    squares: F32
    share: float


def check_able(model: ExportModel) -> None:
    """Raise UnsupportedError for a graph with ops whose derivatives are not known here."""
    for node in model.nodes:
        facts = attributes(node)
        if node.op_type not in _ABLE or facts.get("shared") or facts.get("value_norm"):
            raise UnsupportedError(
                "a size is for models of plain layers, without experts, states and shared keys",
                hint="state a format for all, or one for each part",
            )


class Backward:
    """One pass over ``windows`` and back.

    - ``model`` and ``floats`` are as in ``evaluate``.
    - ``pull`` returns the derivatives of logits f32[T, V] from the logits themselves, which it may overwrite.
    - ``each`` is called once for every use of a matrix.
    """

    def __init__(
        self,
        model: ExportModel,
        floats: Floats,
        windows: Sequence[Sequence[int]],
        pull: Callable[[F32], F32],
        each: Callable[[Slopes], None],
    ) -> None:
        check_able(model)
        self._run = Run(model, floats, windows, lambda weight, x: None)
        self._pull, self._each = pull, each
        self._above: dict[str, F32] = {}
        """Derivatives by the name of a value."""

    def go(self, progress: Steps) -> None:
        """Run; ``progress(done, total)`` counts layers, there and back."""
        run, parts = self._run, _layers(self._run.model.nodes)
        used = [{name for node in part for name in node.input} for part in parts]
        starts: list[dict[str, NDArray[np.generic]]] = []
        for at, part in enumerate(parts):
            needed = set().union(*used[at:])
            run.values = {name: value for name, value in run.values.items() if name in needed}
            starts.append(dict(run.values))
            for node in part if at + 1 < len(parts) else ():
                run.step(node)
            progress(at, 3 * len(parts))
        for at, part in reversed(list(enumerate(parts))):
            run.values = starts.pop()
            for node in part:
                run.step(node)
            for node in reversed(part):
                self._back(node)
            progress(len(parts) + 2 * (len(parts) - at), 3 * len(parts))

    def _back(self, node: onnx.NodeProto) -> None:
        run, attrs, names = self._run, attributes(node), list(node.input)
        if node.op_type == "HeadTopK":
            self._head(run.matrix(names[1]), names[0], float(str(attrs.get("softcap", 0.0))))
            return
        above = [self._above.pop(name) for name in node.output if name in self._above]
        if not above:
            return
        if node.op_type == "QuantEmbedding":
            self._embedding(run.matrix(names[1]), above[0] * np.float32(str(attrs["scale"])))
        elif node.op_type == "QuantLinear":
            self._linear(run.matrix(names[3]), names[0], above[0])
        elif node.op_type == "TreeAttention":
            norms = [run.value(name) if name else None for name in [*names[5:7], "", ""][:2]]
            values = run.value(names[0]), run.value(names[1])
            self._add(names[0], attention(attrs, *values, norms, run.spans, above[0]))
        else:
            inputs = [run.value(name) for name in names if name != "rows"]
            for name, grad in zip(names, BACKWARD[node.op_type](attrs, inputs, above), strict=False):
                self._add(name, grad)

    def _add(self, name: str, grad: F32) -> None:
        if name not in self._run.model.weights:
            self._above[name] = self._above[name] + grad if name in self._above else grad

    def _head(self, table: PackedWeight, name: str, cap: float) -> None:
        logits = self._run.linear(table, self._run.values[name], "")
        if cap:
            logits = np.float32(cap) * np.tanh(logits / np.float32(cap))
            bend = 1 - np.square(logits / np.float32(cap))
            self._linear(table, name, self._pull(logits) * bend)
        else:
            self._linear(table, name, self._pull(logits))

    def _linear(self, weight: PackedWeight, name: str, above: F32) -> None:
        x, mass = self._run.values[name], np.einsum("tn,tn->n", above, above, dtype=np.float64)
        count = min(weight.rows, max(32, _KEPT // weight.cols))
        chosen = np.sort(np.argsort(-mass, kind="stable")[:count])
        rows, below = np.empty((count, weight.cols), np.float32), np.zeros_like(x)
        step = max(1, _CHUNK // weight.cols)
        for start in range(0, weight.rows, step):
            stop = min(start + step, weight.rows)
            part = self._run.read(weight, start, stop)
            below += above[:, start:stop] @ part
            inside = (chosen >= start) & (chosen < stop)
            rows[inside] = part[chosen[inside] - start]
        self._add(name, below)
        squares = np.zeros_like(rows)
        for span in self._run.spans:
            squares += np.square(above[span][:, chosen].T @ x[span])
        self._each(Slopes(weight, rows, squares, float(mass.sum() / max(mass[chosen].sum(), 1e-300))))

    def _embedding(self, table: PackedWeight, above: F32) -> None:
        tokens = self._run.values["tokens"]
        ids, places = np.unique(tokens, return_inverse=True)
        rows = np.concatenate([self._run.read(table, one, one + 1) for one in ids.tolist()])
        squares = np.zeros_like(rows)
        for span in self._run.spans:
            sums = np.zeros_like(rows)
            np.add.at(sums, places[span], above[span])
            squares += np.square(sums)
        self._each(Slopes(table, rows, squares, 1.0))


def _layers(nodes: Sequence[onnx.NodeProto]) -> list[list[onnx.NodeProto]]:
    """Cut the nodes behind each layer."""
    found: list[list[onnx.NodeProto]] = [[]]
    for node in nodes:
        found[-1].append(node)
        if _LAYER_ENDS.fullmatch(node.output[0]):
            found.append([])
    return found
