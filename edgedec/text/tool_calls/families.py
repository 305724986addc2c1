"""All families, in the order in which a chat template is compared with them."""

from __future__ import annotations

from edgedec.text.tool_calls.bar_tags import GRANITE, PHI
from edgedec.text.tool_calls.deepseek import DEEPSEEK, DEEPSEEK_FENCED
from edgedec.text.tool_calls.family import Family
from edgedec.text.tool_calls.gemma import FUNCTION_GEMMA, GEMMA4
from edgedec.text.tool_calls.glm import GLM
from edgedec.text.tool_calls.harmony import HARMONY
from edgedec.text.tool_calls.hermes import APRIEL, HERMES, NEMOTRON
from edgedec.text.tool_calls.lfm import LFM
from edgedec.text.tool_calls.llama import LLAMA
from edgedec.text.tool_calls.mistral import MISTRAL, MISTRAL_ARGS
from edgedec.text.tool_calls.qwen_coder import QWEN_CODER

FAMILIES = (
    HARMONY, QWEN_CODER, GLM, FUNCTION_GEMMA, GEMMA4, LFM, PHI, GRANITE, MISTRAL_ARGS, MISTRAL,
    DEEPSEEK_FENCED, DEEPSEEK, NEMOTRON, APRIEL, HERMES, LLAMA,
)  # fmt: skip


def family_of(template: str) -> Family | None:
    """Find the family whose form the text of a chat template describes; None for no form that is known."""
    return next((family for family in FAMILIES if family.knows(template)), None)
