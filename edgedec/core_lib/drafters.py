"""Drafters of the core that run models: kernels/core/api/drafters.cc."""

from __future__ import annotations

from collections.abc import Collection
from ctypes import Structure, addressof, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p
from struct import pack, unpack_from

from edgedec.core.tree import EMPTY, DraftTree
from edgedec.core_lib.binding import INT, LONG, POINTER, REAL, Functions

DRAFTER = Functions(
    "edgedec_core_drafter_",
    exit_new=(POINTER, POINTER),
    model_new=(POINTER, POINTER),
    free=(None, POINTER),
    sampled=(INT, POINTER, POINTER),
    begin=(INT, POINTER, POINTER, LONG, LONG),
    commit=(INT, POINTER, POINTER, LONG),
    read=(INT, POINTER, LONG, POINTER, LONG),
    propose=(INT, POINTER, LONG, REAL, POINTER, POINTER, POINTER),
    ahead=(INT, POINTER, POINTER, LONG, LONG, POINTER),
    work=(None, POINTER, POINTER),
    bytes=(LONG, POINTER),
)
DOUBTS: tuple[float, float] | None = None
"""Entropy above which drafts end, and the least probable path that is followed; None: the core's own.

For tests: random models are sure of nothing.
"""


class DraftRoom:
    """Memory for a draft of at most ``tokens`` tokens, which the core writes at ``addresses``."""

    def __init__(self, tokens: int) -> None:
        self.most = tokens
        self._tokens, self._parents = (c_int32 * tokens)(), (c_int32 * tokens)()
        self._probs = (c_double * tokens)()
        self.addresses = addressof(self._tokens), addressof(self._parents), addressof(self._probs)

    def tree(self, count: int, source: str) -> DraftTree:
        """Return the first ``count`` tokens as a draft."""
        if not count:
            return EMPTY
        ints = f"{count}i"
        return DraftTree(
            unpack_from(ints, self._tokens),
            unpack_from(ints, self._parents),
            unpack_from(f"{count}d", self._probs),
            (source,) * count,
        )


class CExit(Structure):
    """``edgedec_core_exit``: layers of a model of ``last`` that draft."""

    _fields_ = (
        ("forward", c_void_p),
        ("trimmed", c_void_p),
        ("doubts", c_char_p),
        ("ends", c_char_p),
        ("ends_count", c_int64),
        ("table_bytes", c_int64),
        ("vocabulary", c_int64),
        ("layer_bytes", c_double),
        ("head_bytes", c_double),
        ("exit", c_int),
        ("resume", c_int),
        ("last", c_int),
    )


class CModel(Structure):
    """``edgedec_core_model``: a model that drafts."""

    _fields_ = (
        ("forward", c_void_p),
        ("bridge", c_void_p),
        ("trimmed", c_void_p),
        ("doubts", c_char_p),
        ("weight_bytes", c_double),
        ("slot_bytes", c_double),
        ("table_bytes", c_double),
    )


def doubts() -> bytes | None:
    """Return ``DOUBTS`` as the core takes them."""
    return pack("2d", *DOUBTS) if DOUBTS else None


def ints(values: Collection[int]) -> bytes:
    """Return i32 as the core takes them. Raises struct.error for others."""
    return pack(f"{len(values)}i", *values)
