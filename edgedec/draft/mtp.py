"""Drafting with the layer of a model that its makers trained to predict further tokens (MTP).

See kernels/core/draft/mtp_drafter.h.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from edgedec.bundle.drafter_manifest import MTP
from edgedec.core_lib.layer_drafters import layer_limits, mtp_handle
from edgedec.draft.head import LayerDrafter, host_of
from edgedec.draft.trimmed import TrimmedHead

if TYPE_CHECKING:
    from edgedec.backends.onnx.layer_forward import LayerForward


def slots_for(context: int) -> int:
    """Return the slots of its cache beside a target of ``context`` tokens, with those of drafted ones."""
    return context + layer_limits()[1]


class MtpDrafter(LayerDrafter):
    """Drafts with ``layer`` from the last layer ``tap``. ``trimmed``: ids that its head is trimmed to."""

    name = MTP
    pretrained = True

    def __init__(self, layer: LayerForward, tap: int, trimmed: TrimmedHead | None = None) -> None:
        host = host_of(layer, partial(_trim, layer, trimmed) if trimmed else None)
        handle = mtp_handle(host, tap, trimmed.handle if trimmed else None)
        super().__init__(layer, (tap,), host, handle, trimmed)


def _trim(layer: LayerForward, trimmed: TrimmedHead, kept: bool) -> None:
    layer.keep = trimmed.keep if kept else None
