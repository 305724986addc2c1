"""LFM2 and LFM2.5 with experts (8B-A1B): as LFM2, with experts behind the first layers."""

from __future__ import annotations

from dataclasses import replace

from edgedec.export.architectures.base import Mixture
from edgedec.export.architectures.lfm2 import LFM2

LFM2MOE = replace(LFM2, name="lfm2moe", experts=Mixture(gating="sigmoid", biased=True, epsilon=1e-6))
