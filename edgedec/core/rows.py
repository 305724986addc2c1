"""Which rows of a pass go through the head, and the head's results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass

FloatArray = NDArray[np.float32]
Keep = NDArray[np.int64]
"""Ids of a trimmed vocabulary: ascending, at least one."""
Parents = Sequence[int] | None
"""The parent of each token of a pass, by its index there; see ``Forward.extend``."""


@dataclass(frozen=True, slots=True)
class HeadRows:
    """Head results for R requested rows, best first (ties: lower id first).

    values f32[R,k] logits, ids i32[R,k], logsumexp f32[R], entropy f32[R] in nats, both over the whole
    vocabulary and of logits divided by ``temperature``; logits f32[R,V], or None when it was not requested.

    With ``Rows.keep`` all of this is over the kept ids only: other logits are -inf, and where fewer than k
    are kept, rows end with the id -1 and the value -inf.
    """

    values: NDArray[np.float32]
    ids: NDArray[np.int32]
    logsumexp: NDArray[np.float32]
    entropy: NDArray[np.float32]
    logits: NDArray[np.float32] | None = None
    temperature: float = 1.0
    hidden: FloatArray | None = None
    """f32[T,W] for all T tokens of the pass: the outputs of the layers ``Rows.taps``, side by side; None: not
    requested.
    """
    in_core: Any = field(default=None, repr=False, compare=False)
    """Where the core finds the same, of memory that is lent; see ``core_lib.params``."""

    def free(self) -> None:
        """Forget whole rows that are not lent: an error keeps calls alive, which would keep their lease."""
        if self.in_core is None:
            object.__setattr__(self, "logits", None)

    def __len__(self) -> int:
        return int(self.ids.shape[0])


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows of a pass go through the head: all by default, the last one, or chosen indices."""

    indices: tuple[int, ...] | None = None
    last: bool = False
    full: bool = False
    """Also return full logits rows."""
    temperature: float = 1.0
    """Temperature of logsumexp and entropy, for backends that can; ``HeadRows.temperature`` has the one used.
    """
    taps: tuple[int, ...] = ()
    """Also return the outputs of these layers, of every token of the pass; they are of ``Capabilities.taps``.
    """
    keep: Keep | None = field(default=None, compare=False)
    """Compute the head for these ids only; None: for the whole vocabulary. Needs ``Capabilities.trims``."""
    lent: bool = False
    """Results may lie in memory of the model's own, which its next pass overwrites: copies take time."""

    def resolve(self, tokens: int) -> Sequence[int]:
        """Indices for a pass over ``tokens`` tokens. Raises ValueError on one outside the pass."""
        if self.last:
            return (tokens - 1,)
        if self.indices is None:
            return range(tokens)
        if self.indices and not (min(self.indices) >= 0 and max(self.indices) < tokens):
            raise ValueError(f"rows {self.indices} outside a pass over {tokens} tokens")
        return self.indices


def tapped(hidden: FloatArray, taps: tuple[int, ...], wanted: tuple[int, ...]) -> FloatArray:
    """Return the outputs of the layers ``wanted`` from ``hidden``, which holds those of ``taps``."""
    if wanted == taps:
        return hidden
    by_layer = hidden.reshape(len(hidden), len(taps), -1)
    return by_layer[:, [taps.index(tap) for tap in wanted]].reshape(len(hidden), -1)


LAST_ROW = Rows(last=True)
ALL_ROWS = Rows()
