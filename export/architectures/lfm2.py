"""LFM2 and LFM2.5: most layers are short convolutions, the others attention with norms on q and k."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

LFM2 = Architecture(
    name="lfm2",
    qk_norm=True,
    recurrent="conv",
    last_norm="token_embd_norm",
)
