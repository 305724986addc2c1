"""Bodies in standard ONNX ops for the ops of EdgeDec: what a runtime without our kernels executes."""

from __future__ import annotations

from edgedec.export.portable.attach import attach_bodies

__all__ = ["attach_bodies"]
