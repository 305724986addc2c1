"""Changes tensors that a GGUF file holds in another order, shape or form than a model directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass
from edgedec.export.recurrent import DeltaSizes

Order = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The way from a tensor of a model directory to that of a GGUF file.

    ``rows`` and ``columns``: theirs, in our order; None: as they lie.
    """

    rows: Order | None = None
    columns: Order | None = None
    values: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None
    squeezed: bool = False
    """Whether theirs is [rows, 1, columns], and ours a matrix of floats that is never quantised."""

    def shape(self, theirs: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of our tensor; a wrong one of theirs stays, and is refused later."""
        right = self.squeezed and len(theirs) == 3 and theirs[1] == 1
        return (theirs[0], theirs[2]) if right else theirs

    def read(
        self, fetch: Callable[[int, int], NDArray[np.float32]], start: int, stop: int
    ) -> NDArray[np.float32]:
        """Return entries ``start`` to ``stop`` of ours; ``fetch`` returns such a range of theirs."""
        if self.rows is None:
            found = fetch(start, stop)
        else:
            picked = self.rows[start:stop]
            runs = np.split(picked, np.flatnonzero(np.diff(picked) != 1) + 1)
            found = np.concatenate([fetch(int(run[0]), int(run[-1]) + 1) for run in runs])
        if self.squeezed:
            found = found.reshape(len(found), -1)
        if self.columns is not None:
            found = np.ascontiguousarray(found[:, self.columns])
        return found if self.values is None else self.values(found)


PLAIN = Conversion()
Conversions = Mapping[str, Conversion]
"""By role: the name of a tensor without its block, such as ``ssm_a``."""

SHORT_CONV: Conversions = {"shortconv.conv.weight": Conversion(squeezed=True)}


def delta_conversions(sizes: DeltaSizes) -> Conversions:
    """Return the conversions of Gated DeltaNet layers.

    In a directory the value heads of a key head are neighbours: head h reads key head h // (Hv / Hk). In a
    GGUF file, and in the bundle, head h reads key head h modulo Hk.
    """
    heads = np.arange(sizes.v_heads).reshape(sizes.k_heads, -1).T.ravel()
    values = (heads[:, None] * sizes.v_dim + np.arange(sizes.v_dim)).ravel()
    channels = np.concatenate([np.arange(2 * sizes.keys), 2 * sizes.keys + values])
    return {
        "attn_qkv.weight": Conversion(channels),
        "attn_gate.weight": Conversion(values),
        "ssm_beta.weight": Conversion(heads),
        "ssm_alpha.weight": Conversion(heads),
        "ssm_conv1d.weight": Conversion(channels, squeezed=True),
        "ssm_a": Conversion(heads, values=lambda logs: -np.exp(logs)),
        "ssm_dt.bias": Conversion(heads),
        "ssm_out.weight": Conversion(columns=values),
    }


def role(name: str) -> str:
    """Return a tensor's name in a GGUF file without its block."""
    return name.split(".", 2)[2] if name.startswith("blk.") and name.count(".") > 1 else name
