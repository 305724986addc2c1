"""The weights of a drafting head, as training writes them and as the export reads them.

A head drafts for one target of hidden size d. It is one decoder layer of its own (EAGLE-3, Li et al. 2025).
At position i it reads two vectors and predicts token i + 2:

- ``s`` f32[d]. After a committed token: ``fc @ taps``, where ``taps`` f32[3 d] are the outputs of three
  layers of the target for token i (``Capabilities.hidden``). After a drafted token: the head's own output
  for the position before.
- ``e`` f32[d], the row of token i + 1 in the target's embedding table, not scaled (Gemma scales it for its
  own layers; the norm below makes that needless here).

::

    x = [norm_embed(e); norm_state(s)]                                 # 2 d
    h = s + attn_output @ attention(attn_q @ x, attn_k @ x, attn_v @ x)
    y = h + ffn_down @ (silu(ffn_gate @ n) * (ffn_up @ n)), n = ffn_norm(h)
    logits = head @ output_norm(y)                                     # of the ids ``keep``

``y`` is the ``s`` of the next drafted position. A norm is x * w / sqrt(mean(x^2) + epsilon). Attention is
causal, with the scale 1 / sqrt(head_dim) and without biases. Queries and keys turn by position i: elements j
and j + head_dim / 2 of a head are a pair, with the frequency rope_base^(-2 j / head_dim). Query heads share
key heads in order: query head q reads key head q // (heads / kv_heads).

Heads of other trainers differ in these points, each a field:

- ``taps`` are other layers, of ``tap_size`` numbers each; ``norm_taps`` are norms before ``fc``.
- ``norm_before_residual``: h is norm_state(s) + ..., in the place of s.
- ``norm_output``: the next ``s`` is output_norm(y), in the place of y.
- ``q_norm`` and ``k_norm`` are norms of each head before it turns; ``rope_factors`` divide the frequencies.
- ``embedding`` is a table of the head's own, in the place of the target's.

These are QuantLinear, RMSNorm, TreeAttention, GatedMLP and HeadTopK as every model here has them; the export
only quantises the matrices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass

Floats = NDArray[np.float32]
TAPS = 3
"""Layers of the target whose outputs a head reads."""
GROUP = 32
"""Columns of every matrix are a multiple of it: the groups of the quantised formats."""
_SIZES = ("hidden", "heads", "kv_heads", "head_dim", "ffn")
_REALS = ("rope_base", "epsilon")
FLAGS = ("norm_each", "norm_before_residual", "norm_output")
"""Fields that are true or false."""


class RowReader(Protocol):
    """A matrix of floats that is read by rows: it may be too large for memory."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self, start: int, stop: int) -> Floats:
        """Return rows ``start`` to ``stop``. Raises BadFileError or UnsupportedError."""


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """Sizes and float32 arrays; the module's text says how they are used.

    Raises BadFileError for arrays of another shape, values that are not finite and ids that do not ascend.
    """

    hidden: int
    """d, of the target."""
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    rope_base: float
    epsilon: float
    keep: NDArray[np.int64]
    """[k] ids of the target that the head predicts, ascending."""
    fc: Floats
    """[d, 3 t]; columns are the tapped layers in their order."""
    norm_embed: Floats
    norm_state: Floats
    attn_q: Floats
    """[heads * head_dim, 2 d]; the first d columns are for the embedding."""
    attn_k: Floats
    """[kv_heads * head_dim, 2 d]."""
    attn_v: Floats
    attn_output: Floats
    """[d, heads * head_dim]."""
    ffn_norm: Floats
    ffn_gate: Floats
    """[ffn, d]."""
    ffn_up: Floats
    ffn_down: Floats
    """[d, ffn]."""
    output_norm: Floats
    head: Floats | None = None
    """[k, d]; None: the rows ``keep`` of the target's own head."""
    taps: tuple[int, ...] = ()
    """Layers of the target whose outputs it reads, in the order of ``fc``; (): ``core.exits.taps_of``."""
    tap_size: int = 0
    """t, the target's hidden size; 0: d."""
    norm_taps: Floats | None = None
    """[3 t]."""
    norm_each: bool = False
    """Whether ``norm_taps`` norms each of the three by itself."""
    norm_before_residual: bool = False
    norm_output: bool = False
    q_norm: Floats | None = None
    """[head_dim]."""
    k_norm: Floats | None = None
    rope_factors: Floats | None = None
    """[head_dim / 2]."""
    embedding: RowReader | None = None
    """[vocabulary, d]."""

    def __post_init__(self) -> None:
        for name in _SIZES:
            if not isinstance(size := getattr(self, name), int) or not 1 <= size <= 1 << 20:
                raise BadFileError(f"the drafting head has an impossible size: {name} {size}")
        if self.taps and (len(self.taps) != TAPS or min(self.taps) < 0):
            raise BadFileError(f"the drafting head reads layers {self.taps}, which are not {TAPS} of a model")
        sizes = (self.hidden, self.heads * self.head_dim, self.ffn, self.tap_size)
        whole = not any(size % GROUP for size in sizes) and 0 <= self.tap_size <= 1 << 20
        if not whole or self.heads % self.kv_heads or self.head_dim % 2:
            raise BadFileError(
                f"the sizes of the drafting head do not fit the kernels: multiples of {GROUP} are the hidden "
                "size, heads times head_dim, and ffn; heads are a multiple of kv_heads"
            )
        for name in _REALS:
            if not 0.0 < getattr(self, name) < np.inf:
                raise BadFileError(f"the drafting head has an impossible {name}")
        keep = self.keep
        if keep.ndim != 1 or not keep.size or keep[0] < 0 or (np.diff(keep) <= 0).any():
            raise BadFileError("the ids of the drafting head do not ascend")
        for name, shape in self.shapes().items():
            self._check(name, shape)
        if self.embedding is not None and self.embedding.shape[1:] != (self.hidden,):
            raise BadFileError(f"the embedding of the drafting head has shape {self.embedding.shape}")
        if (self.q_norm is None) != (self.k_norm is None):
            raise BadFileError("the drafting head norms only one of queries and keys")
        if self.rope_factors is not None and self.rope_factors.min() <= 0:
            raise BadFileError("rope_factors of the drafting head are not positive")

    @property
    def width(self) -> int:
        """Numbers of a token's hidden states."""
        return TAPS * (self.tap_size or self.hidden)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array of floats; those that are None are left out."""
        d, queries, keys = self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim
        found: dict[str, tuple[int, ...]] = {
            "fc": (d, self.width),
            "norm_embed": (d,),
            "norm_state": (d,),
            "attn_q": (queries, 2 * d),
            "attn_k": (keys, 2 * d),
            "attn_v": (keys, 2 * d),
            "attn_output": (d, queries),
            "ffn_norm": (d,),
            "ffn_gate": (self.ffn, d),
            "ffn_up": (self.ffn, d),
            "ffn_down": (d, self.ffn),
            "output_norm": (d,),
            "head": (self.keep.size, d),
            "norm_taps": (self.width,),
            "q_norm": (self.head_dim,),
            "k_norm": (self.head_dim,),
            "rope_factors": (self.head_dim // 2,),
        }
        return {name: shape for name, shape in found.items() if getattr(self, name) is not None}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> HeadWeights:
        """Take the fields by name. Raises BadFileError where one lacks that every head has."""
        for field in dataclasses.fields(cls):
            if field.default is dataclasses.MISSING and field.name not in values:
                raise BadFileError(f"the drafting head lacks {field.name}")
        return cls(**values)

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        array: NDArray[Any] = getattr(self, name)
        if array.shape != shape:
            raise BadFileError(f"{name} of the drafting head has shape {array.shape}, not {shape}")
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise BadFileError(f"{name} of the drafting head is not finite float32")
