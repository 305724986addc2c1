"""Runs drafting.onnx in an ONNX Runtime session of the caller's making, as docs/portable.md shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.bundle import exits as names
from edgedec.bundle.manifest import Manifest
from edgedec.export.model import CACHE, attributes
from tests.kernels.attention import depths
from tests.portable.runner import options

Array = NDArray[Any]


class DraftingRunner:
    """A session and its caches; ``length`` tokens are resident."""

    def __init__(
        self, bundle: Path, chosen: ort.SessionOptions | None = None, *, graph: str = "drafting.onnx"
    ) -> None:
        self.session = ort.InferenceSession(
            str(bundle / graph), chosen or options(), providers=["CPUExecutionProvider"]
        )
        self.spec = Manifest.load(bundle).spec
        self.exits = names.exits_of(self.spec.n_layers)
        self.caches = {
            node.name: np.zeros([*node.shape[:3], 64, self.spec.head_dim], np.float16)
            for node in self.session.get_inputs()
            if node.name in (CACHE, "kv_window")
        }
        nodes = onnx.load(str(bundle / graph), load_external_data=False).graph.node
        self._places = [
            (node.input[4], int(str(attributes(node)["layer"])))
            for node in nodes
            if node.op_type == "TreeAttention"
        ]
        self.length = 0

    def run(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        end: int = 0,
        warm: tuple[int, Array] | None = None,
        keep: Sequence[int] = (),
        rows: Sequence[int] | None = None,
    ) -> dict[str, Array]:
        """One pass over ``tokens``, behind those that ``warm`` is of: (layers, their rows after these).

        ``parents`` are of all of them. ``end``: layers after which it ends, 0 for all. ``rows``: those asked
        for, all unless said. The caches get the keys and values; ``length`` stays.
        """
        before = 0 if warm is None else len(warm[1])
        total = before + len(tokens)
        chosen = list(range(-1, total - 1)) if parents is None else list(parents)
        nothing = np.empty(0, np.int64)
        feeds = {
            "tokens": np.array(tokens, dtype=np.int64),
            "positions": self.length + np.array(depths(chosen), np.int64),
            "parents": np.array(chosen, dtype=np.int64),
            "length": np.array([self.length], dtype=np.int64),
            "rows": nothing,
            "want_logits": np.ones(1, np.int64),
            names.KEEP: np.array(keep, dtype=np.int64),
            **self.caches,
        }
        through, counts = len(tokens), {}
        for exit in self.exits:
            given = warm[1] if warm and warm[0] == exit else np.empty((0, self.spec.hidden_size), np.float32)
            feeds[names.warm(exit)], counts[exit] = given, through
            if exit != self.exits[-1]:
                feeds[names.rows(exit)] = nothing
                feeds[names.passing(exit)] = np.arange(0 if exit == end else through, dtype=np.int64)
            through = (0 if exit == end else through) + len(given)
        asked = np.arange(counts[end] if end else through) if rows is None else np.array(rows, dtype=np.int64)
        feeds[names.rows(end) if end else "rows"] = asked.astype(np.int64)
        outputs = [node.name for node in self.session.get_outputs()]
        out = dict(zip(outputs, self.session.run(outputs, feeds), strict=True))
        self._store(out, counts, total)
        return out

    def _store(self, out: dict[str, Array], counts: dict[int, int], total: int) -> None:
        for exit, below in zip(self.exits, (0, *self.exits), strict=False):
            new = out[names.new_kv(exit)]  # empty from kernels, which write the caches themselves
            if not new.shape[3]:
                continue
            assert new.shape[3] == counts[exit]
            slots = self.length + total - counts[exit] + np.arange(counts[exit])
            places = sorted(self._places[below:exit], key=lambda place: place[0] != CACHE)
            for (cache, layer), rows in zip(places, new, strict=True):
                self.caches[cache][layer, :, :, slots % 64] = rows.transpose(2, 0, 1, 3)
