"""Bodies in standard ONNX ops for the ops of EdgeDec: what a runtime without our kernels executes."""

from __future__ import annotations

from edgedec.export.portable.attach import attach_bodies
from edgedec.export.portable.float_cache import with_float_cache

__all__ = ["attach_bodies", "with_float_cache"]
