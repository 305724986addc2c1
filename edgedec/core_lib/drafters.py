"""Drafters of the core that run models: kernels/core/api/drafters.cc."""

from __future__ import annotations

from ctypes import Structure, c_char_p, c_double, c_int, c_int64, c_void_p
from struct import pack

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
