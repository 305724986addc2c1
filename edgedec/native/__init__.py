"""The native engine: EdgeDec in one library without Python, called through kernels/engine/edgedec.h.

Its tokens are those of ``edgedec.open``. It is what programs in other languages and phones embed; from Python
it serves tests, and as an example.
"""

from __future__ import annotations

from edgedec.native.engine import NativeConfig, NativeModel, NativeReply, NativeToken, open, plan

__all__ = ["NativeConfig", "NativeModel", "NativeReply", "NativeToken", "open", "plan"]
