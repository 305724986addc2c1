"""Phi-3 and Phi-4 mini: q, k and v in one tensor, gate and up in another, LongRoPE, windows everywhere.

Phi-4 mini rotates three quarters of a head.
"""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

PHI3 = Architecture(
    name="phi3",
    fused=True,
    long_rope=True,
    partial_rotary=True,
    windows_everywhere=True,
    honours=frozenset({"rope.scaling.attn_factor"}),
)
