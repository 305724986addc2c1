"""Constants of kernels that read packed weights: where the fields of a format's records lie."""

from __future__ import annotations

from edgedec.backends.gpu.shaders import Const
from edgedec.kernels.packing.formats import (
    FORMATS,
    GROUP,
    IQ1_VALUES,
    IQ2_VALUES,
    IQ3S_VALUES,
    IQ3X_VALUES,
    IQ4_NL_VALUES,
    MXFP4_VALUES,
    TILE,
    Format,
)

FLOAT_KINDS = {"f16": 0, "bf16": 1, "f32": 2}
"""The constant ``KIND`` of ``quant_linear/float_linear.wgsl``."""
_SCALES = {"mxfp4": 1, "q4_k": 2, "q5_k": 2, "q6_k": 3, "q3_k": 4, "q2_k": 5, "tq2_0": 7}
_SCALES["nvfp4"] = 9
_SCALES |= dict.fromkeys(("iq4", "iq3x", "iq3s"), 8) | dict.fromkeys(("iq2", "iq1"), 6)
_VALUES: dict[tuple[int, ...], int] = {IQ4_NL_VALUES: 1, MXFP4_VALUES: 2}
_VALUES |= {IQ3X_VALUES: 3, IQ3S_VALUES: 4, IQ2_VALUES: 5, IQ1_VALUES: 6}


def constants(format: str) -> dict[str, Const]:
    """Return the constants of ``quant_linear/formats.wgsl`` for a format that is not of floats."""
    spec = FORMATS[format]
    low = TILE * spec.record * _low_bits(spec) // 8
    start = spec.record_bytes - TILE * spec.record * spec.bits // 8
    return {
        "WORDS": spec.record_bytes // 4,
        "PER_RECORD": spec.record // GROUP,
        "BITS": spec.bits,
        "OFFSET": 0 if spec.bits == 8 else spec.offset,
        "LO": start // 4,
        "HI": (start + low) // 4,
        "VALUES": _VALUES.get(spec.values, 0),
        "MINIMA": spec.has_min,
        "SCALES": _SCALES.get(format, 0),
        "UNIT": spec.unit,
    }


def activation_groups(cols: int) -> int:
    """Return the groups of a row of activations: ``GROUPS`` of ``quant_linear/quantise.wgsl``."""
    return -(-cols // 256) * 8


def _low_bits(spec: Format) -> int:
    return 8 if spec.bits == 8 else 4 if spec.bits >= 4 else 2
