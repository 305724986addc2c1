"""Drafting with a smaller model, the draft model: kernels/core/draft/model_drafter.h."""

from __future__ import annotations

from ctypes import addressof, byref

from edgedec.core.forward import Forward
from edgedec.core.tree import DraftTree
from edgedec.core_lib.drafters import DRAFTER, CModel, doubts
from edgedec.core_lib.host_forward import HostForward
from edgedec.core_lib.turns import ALONE, Turns
from edgedec.draft.bridge import Bridge
from edgedec.draft.drafter import DrafterCapabilities
from edgedec.draft.in_core import CoreDrafter
from edgedec.draft.trimmed import TrimmedHead


class ModelDrafter(CoreDrafter):
    """Drafts with ``forward``, which reads and writes the target's tokens through ``bridge``.

    With ``trimmed`` its head computes the kept ids only, as long as the text consists of them. ``turns``:
    those on a model that drafts for several conversations.
    """

    caps = DrafterCapabilities(looks_ahead=True)
    pretrained = True

    def __init__(
        self,
        name: str,
        forward: Forward,
        bridge: Bridge,
        trimmed: TrimmedHead | None = None,
        turns: Turns = ALONE,
    ) -> None:
        self.name = name
        self.bridge = bridge
        self._forward, self._turns = forward, turns
        held = forward.nbytes()
        slot = held.get("kv_cache", 0) // max(forward.capacity, 1)
        host = HostForward(forward, trimmed, turns)
        given = CModel(
            addressof(host.struct), bridge.handle, trimmed and trimmed.handle, doubts(),
            held.get("weights", 0), slot, forward.spec.table_bytes,
        )  # fmt: skip
        super().__init__(DRAFTER.model_new(byref(given)), host, bridge, trimmed=trimmed)
        forward.rewind(0)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        with self._turns.drafting():
            return super().propose(limit, floor)

    def nbytes(self) -> int:
        """Weights (mapped, and shared with others who map them), the cache as reserved, and bookkeeping."""
        return super().nbytes() + sum(self._forward.nbytes().values())
