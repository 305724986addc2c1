"""Architectures that can be exported, by their name in ``general.architecture``; one file each."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture
from edgedec.export.architectures.gemma2 import GEMMA2
from edgedec.export.architectures.gemma3 import GEMMA3, GEMMA_EMBEDDING
from edgedec.export.architectures.gemma4 import GEMMA4
from edgedec.export.architectures.gptoss import GPTOSS
from edgedec.export.architectures.granitemoe import GRANITEMOE
from edgedec.export.architectures.lfm2 import LFM2
from edgedec.export.architectures.lfm2moe import LFM2MOE
from edgedec.export.architectures.llama import LLAMA
from edgedec.export.architectures.mistral3 import MISTRAL3
from edgedec.export.architectures.phi3 import PHI3
from edgedec.export.architectures.qwen2 import QWEN2
from edgedec.export.architectures.qwen3 import QWEN3
from edgedec.export.architectures.qwen3moe import QWEN3MOE
from edgedec.export.architectures.qwen3vl import QWEN3VL
from edgedec.export.architectures.qwen35 import QWEN35
from edgedec.export.architectures.qwen35moe import QWEN35MOE
from edgedec.export.architectures.smollm3 import SMOLLM3

__all__ = ["ARCHITECTURES", "GEMMA_EMBEDDING", "NO_OPS", "Architecture"]

ARCHITECTURES: dict[str, Architecture] = {
    a.name: a
    for a in (
        LLAMA,
        QWEN2,
        QWEN3,
        QWEN3MOE,
        GEMMA2,
        GEMMA3,
        PHI3,
        SMOLLM3,
        MISTRAL3,
        QWEN3VL,
        QWEN35,
        QWEN35MOE,
        LFM2,
        LFM2MOE,
        GRANITEMOE,
        GPTOSS,
        GEMMA4,
    )
}
NO_OPS = {
    "granitehybrid": "there is no op for Mamba-2 layers",
    "gemma3n": "there is no op for AltUp layers",
}
"""Architectures of GGUF files that need an op which is not here, and which."""
