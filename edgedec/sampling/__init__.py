"""The settings of draws: how a reply's tokens are drawn, and the names that callers give them."""

from __future__ import annotations

from edgedec.sampling.params import DrawParams

__all__ = ["DrawParams"]
