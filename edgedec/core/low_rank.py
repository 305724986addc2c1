"""Low-rank changes of a model's matrices: adapters in the form of LoRA, as arrays.

A matrix W with a change computes ``y = W x + up (down x)`` in float32. The steps, in this order:

- ``y`` of W is computed as without a change, with its bias and residual.
- ``t[r] = sum_k down[r, k] x[k]`` is a chain of fused multiply-adds in ascending k.
- ``s[n] = sum_r up[n, r] t[r]`` is one in ascending r, through all adapters in the order in which they were
  named.
- ``y + s`` is one addition.

``up`` has the adapter's scale in it, rounded once. Source: Hu et al. 2021, "LoRA".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass

F32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Short:
    """A matrix in the smallest of three formats that has every value exactly: "bf16", "f16" or "f32".

    ``data``: the numbers of that format, those of bf16 as u16.
    """

    format: str
    data: NDArray[Any]

    @classmethod
    def of(cls, values: F32) -> Short:
        """Return the short form of f32[rows, columns]."""
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        if not (bits & 0xFFFF).any():
            return cls("bf16", (bits >> 16).astype(np.uint16))
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        exact = np.array_equal(half.astype(np.float32), values)
        return cls("f16", half) if exact else cls("f32", bits.view(np.float32))

    @property
    def values(self) -> F32:
        """The matrix itself."""
        if self.format == "bf16":
            return (self.data.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return self.data.astype(np.float32)


@dataclass(frozen=True, slots=True)
class LowRank:
    """The change of one matrix."""

    short_down: Short
    short_up: Short

    @classmethod
    def of(cls, down: F32, up: F32) -> LowRank:
        """Return the change ``up down``."""
        return cls(Short.of(down), Short.of(up))

    @property
    def down(self) -> F32:
        """f32[rank, inputs]."""
        return self.short_down.values

    @property
    def up(self) -> F32:
        """f32[outputs, rank]."""
        return self.short_up.values

    @property
    def rank(self) -> int:
        """Rows of ``down``."""
        return len(self.short_down.data)

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return len(self.short_up.data), self.short_down.data.shape[1]

    def beside(self, other: LowRank) -> LowRank:
        """Return the sum of two changes of one matrix."""
        ups = [self.up, other.up]
        return LowRank.of(np.concatenate([self.down, other.down]), np.concatenate(ups, axis=1))


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """The changes of an adapter by the name of the matrix in a GGUF file; none at a scale of 0.

    ``name``: for messages. ``sha256``: of names and values, with the scale in them.
    """

    name: str
    sha256: str
    changes: Mapping[str, LowRank]


AdapterSource = Callable[[], LoraAdapter]
"""Reads an adapter. So nothing holds its matrices once the model has them."""


def together(adapters: Iterable[LoraAdapter]) -> dict[str, LowRank]:
    """Return the changes that adapters make together, in the order in which they were named."""
    found: dict[str, LowRank] = {}
    for adapter in adapters:
        for name, change in adapter.changes.items():
            found[name] = found[name].beside(change) if name in found else change
    return found


def hash_of(changes: Mapping[str, LowRank]) -> str:
    """Return the SHA-256 of the names and values of changes, whatever file they came from."""
    found = hashlib.sha256()
    for name in sorted(changes):
        found.update(name.encode())
        for matrix in (changes[name].short_down, changes[name].short_up):
            found.update(matrix.format.encode())
            found.update(matrix.data.tobytes())
    return found.hexdigest()


def wider(spec: ModelSpec, changes: Mapping[str, LowRank]) -> ModelSpec:
    """Return ``spec`` with the MLP as wide as all that a layer with these changes holds at once.

    Gate and up stand beside their product, or one of them beside both before and after its change. Results of
    ``down`` are added for all matrices of a layer.
    """
    if not changes:
        return spec
    by_layer: dict[str, int] = {}
    for name, change in changes.items():
        block = name.rpartition(".")[0].rpartition(".")[0]
        by_layer[block] = by_layer.get(block, 0) + change.rank
    return replace(spec, ffn_size=3 * spec.ffn_size + max(by_layer.values(), default=0))
