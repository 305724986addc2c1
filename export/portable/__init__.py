"""Bodies of EdgeDec's ops in standard ONNX ops, for runtimes without its kernels."""

from __future__ import annotations

from edgedec.export.portable.attach import attach_bodies
from edgedec.export.portable.float_cache import with_float_cache

__all__ = ["attach_bodies", "with_float_cache"]
