"""``npu.json``: the lengths of passes, the formats of inputs and outputs, and where the embedding lies."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.affine import Affine
from edgedec.bundle.manifest import NPU_FACTS, WEIGHTS, Manifest
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray

AGAIN = "export the model again"
CACHES = ("keys.", "values.")
"""Beginnings of the names of inputs that hold keys and values of a layer."""
MASKS = ("mask", "mask_local")
"""Names of the inputs that hide slots: from layers without a window, and from those with one."""
_MOST_SLOTS = 1 << 20


def graph_name(length: int) -> str:
    """Return the name of the file with the pass over ``length`` tokens."""
    return f"verify_{length}.onnx"


def context_name(length: int) -> str:
    """Return the name of the file with the same pass compiled ahead of time by QNN."""
    return f"verify_{length}.qnn.onnx"


@dataclass(frozen=True, slots=True)
class Rotary:
    """A table of sines and cosines: frequencies f32[d/2], and factors f32[d] on both."""

    frequencies: tuple[float, ...]
    factors: tuple[float, ...]

    def at(self, positions: NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
        """Return cosines and sines f32[N, 1, d]; the sines of the first half are negative."""
        angles = positions[:, None] * np.array(self.frequencies)
        cos, sin = np.tile(np.cos(angles), 2), np.tile(np.sin(angles), 2)
        sin[:, : len(self.frequencies)] *= -1
        cos, sin = (part * np.array(self.factors) for part in (cos, sin))
        return cos.astype(np.float32)[:, None], sin.astype(np.float32)[:, None]


@dataclass(frozen=True, slots=True)
class EmbeddingPlace:
    """A table i8[V, hidden] and its scales f32[V] in ``weights.bin``, at these bytes, and a factor."""

    offset: int
    scales: int
    factor: float


@dataclass(frozen=True, slots=True)
class NpuFacts:
    """The contents of ``npu.json``."""

    lengths: tuple[int, ...]
    """Tokens of the passes, ascending."""
    slots: int
    """Slots of the cache; a pass of N tokens writes N of them, used or not."""
    group: int
    """Query heads to a key head: the mask has each token so many times."""
    window: int
    """Tokens that a layer with a window sees; 0 without such layers."""
    formats: Mapping[str, Affine]
    rotary: Mapping[str, Rotary]
    embedding: EmbeddingPlace
    scheme: str
    """Bits of values, weights and cache, for people: ``a16w8kv8``."""

    @property
    def capacity(self) -> int:
        """Most tokens that the cache holds: behind them the longest pass still fits."""
        return self.slots - self.lengths[-1]

    def to_json(self) -> str:
        """Return the text of ``npu.json``."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> NpuFacts:
        """Read ``npu.json``. Raises BadFileError unless it describes the manifest's model."""
        try:
            facts = _decoded(json.loads((folder / NPU_FACTS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BadFileError(f"{NPU_FACTS} of the bundle cannot be read", hint=AGAIN) from error
        if not facts.fits(manifest):
            raise BadFileError(f"{NPU_FACTS} of the bundle is not that of its manifest's model", hint=AGAIN)
        return facts

    def fits(self, manifest: Manifest) -> bool:
        """Whether sizes are those of the manifest, and lie within its files."""
        spec, size = manifest.spec, manifest.files[WEIGHTS].bytes
        table, scales = spec.vocab_size * spec.hidden_size, 4 * spec.vocab_size
        caches = {f"{kind}.{layer}" for layer in range(spec.n_layers) for kind in ("keys", "values")}
        return (
            list(self.lengths) == sorted({*self.lengths})
            and bool(self.lengths)
            and self.lengths[0] > 0
            and self.lengths[-1] < self.slots <= _MOST_SLOTS
            and spec.context_length <= self.capacity
            and self.group * spec.n_kv_heads == spec.n_heads
            and self.window >= 0
            and 0 <= self.embedding.offset <= size - table
            and 0 <= self.embedding.scales <= size - scales
            and all(graph_name(length) in manifest.files for length in self.lengths)
            and self.formats.keys() >= caches | {"logits"}
            and all(one.bits in (8, 16) and 0 <= one.zero < 2**one.bits for one in self.formats.values())
            and all(0 < one.scale < math.inf for one in self.formats.values())
            and bool(self.rotary)
            and all(
                2 * len(one.frequencies) == len(one.factors) == spec.head_dim for one in self.rotary.values()
            )
        )


def _decoded(data: Any) -> NpuFacts:
    """Raises TypeError, ValueError or KeyError for what is no such file."""
    return NpuFacts(
        lengths=tuple(map(_whole, data["lengths"])),
        slots=_whole(data["slots"]),
        group=_whole(data["group"]),
        window=_whole(data["window"]),
        formats={
            str(name): Affine(_whole(one["bits"]), float(one["scale"]), _whole(one["zero"]))
            for name, one in data["formats"].items()
        },
        rotary={
            str(name): Rotary(_numbers(one["frequencies"]), _numbers(one["factors"]))
            for name, one in data["rotary"].items()
        },
        embedding=EmbeddingPlace(
            _whole(data["embedding"]["offset"]),
            _whole(data["embedding"]["scales"]),
            float(data["embedding"]["factor"]),
        ),
        scheme=str(data["scheme"]),
    )


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


def _numbers(values: Any) -> tuple[float, ...]:
    found = tuple(map(float, values))
    if not all(map(math.isfinite, found)):
        raise ValueError("not finite")
    return found
