"""Runs a bundle's model.onnx in an ONNX Runtime session of the caller's making, as docs/portable.md shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_kinds import TRAIL_SLOTS
from edgedec.kernels import library
from tests.kernels.attention import depths

Array = NDArray[Any]


def options(*, kernels: bool = False, rounded: bool = False) -> ort.SessionOptions:
    """Silent; with ``kernels`` our library is registered; with ``rounded`` inputs may be, to 8 bits."""
    chosen = ort.SessionOptions()
    chosen.log_severity_level = 4
    chosen.intra_op_num_threads = 2
    chosen.enable_mem_reuse = False
    chosen.add_session_config_entry("session.disable_quant_qdq", str(int(not rounded)))
    if kernels:
        chosen.register_custom_ops_library(str(library.library_path()))
    return chosen


class Runner:
    """A session and its caches, of ``capacity`` slots and, where layers have a window, of ``ring``;
    ``length`` tokens are resident.
    """

    def __init__(
        self,
        bundle: Path,
        chosen: ort.SessionOptions | None = None,
        *,
        capacity: int = 64,
        ring: int = 64,
        model: str = "model.onnx",
    ) -> None:
        providers = {} if chosen and chosen.has_providers() else {"providers": ["CPUExecutionProvider"]}
        self.session = ort.InferenceSession(str(bundle / model), chosen or options(), **providers)
        head_dim = Manifest.load(bundle).spec.head_dim
        slots = {"kv_cache": capacity, "kv_window": ring}
        self.caches = {
            node.name: np.zeros(
                [*node.shape[:3], slots[node.name], head_dim],
                dtype=np.float16 if node.type == "tensor(float16)" else np.float32,
            )
            for node in self.session.get_inputs()
            if node.name in slots
        }
        self.length = self.applied = 0
        """Tokens that are resident, and those that states of recurrent layers cover."""
        self.kinds = Manifest.load(bundle).spec.states
        self.states: dict[str, Array] = {}
        for kind in self.kinds:
            self.states[f"{kind.name}_trail"] = np.zeros((kind.layers, TRAIL_SLOTS, kind.trail), np.float32)
            if kind.state:
                self.states[f"{kind.name}_state"] = np.zeros((kind.layers, 1, kind.state), np.float32)

    def run(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        want_logits: bool = True,
        attention: Array | None = None,
    ) -> dict[str, Array]:
        """One pass, all rows; a chain unless ``parents`` says otherwise. Its keys and values are appended.
        ``attention``: the graph's input of that name, if it is to be given.
        """
        chosen = list(range(-1, len(tokens) - 1)) if parents is None else parents
        feeds: Mapping[str, Array] = {
            "tokens": np.array(tokens, dtype=np.int64),
            "positions": self.length + np.array(depths(chosen), np.int64),
            "parents": np.array(chosen, dtype=np.int64),
            "length": np.array([self.length], dtype=np.int64),
            "rows": np.arange(len(tokens), dtype=np.int64),
            "want_logits": np.array([int(want_logits)], dtype=np.int64),
            **self.caches,
            **self.states,
            **({"applied": np.array([self.applied], np.int64)} if self.states else {}),
            **({} if attention is None else {"attention": attention}),
        }
        names = [node.name for node in self.session.get_outputs()]
        out = dict(zip(names, self.session.run(names, feeds), strict=True))
        new = out["kv_new"]  # empty from kernels, which write the caches themselves
        slots = np.arange(self.length, self.length + new.shape[3])
        for cache in self.caches.values():
            cache[:, :, :, slots % cache.shape[3]] = new[: len(cache)]
            new = new[len(cache) :]
        self._keep_states(out, chain=list(chosen) == list(range(-1, len(tokens) - 1)), count=len(tokens))
        self.length += len(tokens)
        return out

    def _keep_states(self, out: Mapping[str, Array], *, chain: bool, count: int) -> None:
        """Store what bodies return for trails and states; the kernels have written them."""
        for kind in self.kinds:
            rows = out[f"{kind.name}_trail_new"][:, -TRAIL_SLOTS:]
            slots = np.arange(self.length + count)[self.length + count - rows.shape[1] :]
            self.states[f"{kind.name}_trail"][:, slots % TRAIL_SLOTS] = rows
            after = out.get(f"{kind.name}_state_new")
            if after is not None and after.size:
                self.states[f"{kind.name}_state"][:] = after
        undone = min((kind.undone for kind in self.kinds), default=0)
        self.applied = max(self.length, self.length + count - undone) if chain else self.length
