"""Drafting with an assistant of Gemma 4, which reads the target's KV cache and has none of its own.

See kernels/core/draft/assistant_drafter.h.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from edgedec.bundle.drafter_manifest import ASSISTANT
from edgedec.core.forward import Forward
from edgedec.core_lib.layer_drafters import HostAssistant, assistant_handle
from edgedec.draft.in_core import CoreDrafter

if TYPE_CHECKING:
    from edgedec.backends.onnx.assistant_forward import AssistantSteps


class AssistantDrafter(CoreDrafter):
    """Drafts with ``steps`` over the cache of ``target``, from the layer ``tap`` of it."""

    name = ASSISTANT
    pretrained = True

    def __init__(self, steps: AssistantSteps, target: Forward, tap: int) -> None:
        host = HostAssistant(steps.sizes, steps.step, partial(_resident, target))
        super().__init__(assistant_handle(host, tap), host)
        self._steps, self.taps = steps, (tap,)

    def nbytes(self) -> int:
        """Weights (mapped), buffers, the state, and bookkeeping."""
        return super().nbytes() + self._steps.nbytes()


def _resident(target: Forward) -> tuple[int, int]:
    """Return the tokens in a cache, and the slots that they take."""
    evicting = target.evicting
    return target.length, target.length if evicting is None else evicting.resident
