"""Drafting with a trained head over the target's hidden states: kernels/core/draft/head_drafter.h."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgedec.core_lib.layer_drafters import HostLayer, head_handle, layer_limits
from edgedec.draft.in_core import CoreDrafter
from edgedec.draft.trimmed import TrimmedHead

if TYPE_CHECKING:
    from edgedec.backends.onnx.layer_forward import LayerForward


class LayerDrafter(CoreDrafter):
    """Drafts with ``layer``, whose cache it owns, from the layers ``taps`` of the target."""

    def __init__(
        self,
        layer: LayerForward,
        taps: tuple[int, ...],
        host: HostLayer,
        handle: int,
        trimmed: TrimmedHead | None = None,
    ) -> None:
        super().__init__(handle, host, trimmed=trimmed)
        self.taps, self.layer = taps, layer
        layer.ledger.hold(self, "taps", 4 * layer_limits()[0] * layer.sizes.width)

    def nbytes(self) -> int:
        """Weights (mapped), the cache as reserved, hidden states that wait, arrays of kept ids that passes
        read, and bookkeeping.
        """
        return super().nbytes() + sum(self.layer.nbytes().values())


class HeadDrafter(LayerDrafter):
    """Drafts with a trained head."""

    name = "head"

    def __init__(self, head: LayerForward, taps: tuple[int, ...]) -> None:
        host = host_of(head)
        super().__init__(head, taps, host, head_handle(host, taps))


def host_of(layer: LayerForward, trim: Callable[[bool], None] | None = None) -> HostLayer:
    """Return a layer as the core calls it; see ``HostLayer``."""
    return HostLayer(layer.sizes, layer.step, layer.rewind, trim)
