"""Cases and a float64 reference for the ShortConv tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.kernels.float_rows import F32, call
from tests.kernels.gated_delta import F64
from tests.kernels.recurrent import Memory


@dataclass(frozen=True)
class ShortConvLayer:
    """Sizes and weights, which stay the same from pass to pass."""

    hidden: int = 48
    taps: int = 3
    seed: int = 0
    state: int = 0

    @property
    def trail(self) -> int:
        return self.hidden

    @property
    def outputs(self) -> int:
        return self.hidden

    @property
    def width(self) -> int:
        """Numbers of a token."""
        return 3 * self.hidden

    def weights(self) -> tuple[F32]:
        rng = np.random.default_rng(self.seed + 1)
        return (rng.standard_normal((self.hidden, self.taps)).astype(np.float32),)

    def tokens(self, count: int) -> F32:
        """Drawn token by token: a longer text begins with a shorter one."""
        return np.random.default_rng(self.seed + 2).standard_normal((count, self.width)).astype(np.float32)

    def rows(self, tokens: F32) -> F32:
        return tokens[:, : self.hidden] * tokens[:, 2 * self.hidden :]

    def call(self, row: str, memory: Memory, tokens: F32, parents: Sequence[int], out: F32) -> int:
        return call(
            "edgedec_short_conv",
            row,
            self.hidden,
            self.taps,
            np.ascontiguousarray(tokens),
            np.asarray(parents, np.int64),
            len(tokens),
            memory.length,
            memory.applied,
            memory.trail,
            *self.weights(),
            out,
        )


def reference(layer: ShortConvLayer, tokens: F32) -> F64:
    """Outputs of a text, token by token in float64."""
    b, gate, x = np.split(tokens.astype(np.float64), 3, axis=1)
    padded = np.concatenate([np.zeros((layer.taps - 1, layer.hidden)), b * x])
    (conv,) = layer.weights()
    sums = [(padded[token : token + layer.taps].T * conv).sum(axis=1) for token in range(len(tokens))]
    return np.array(gate * np.array(sums))
