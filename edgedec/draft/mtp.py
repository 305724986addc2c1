"""Drafting with the layer of a model that its makers trained to predict further tokens (MTP).

It works as a trained head does (``head``), over the outputs of the last layer alone. Its own cache keeps step
with the target's: all that waits is read before it would be too much. Its head is the target's own, perhaps
trimmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgedec.bundle.drafter_manifest import MTP
from edgedec.core.rows import FloatArray
from edgedec.core.tree import DraftTree
from edgedec.draft.head import MOST_FED, MOST_WAITING, HeadDrafter
from edgedec.draft.trimmed import TrimmedHead

if TYPE_CHECKING:
    from edgedec.backends.onnx.mtp_forward import MtpForward

MORE_SLOTS = MOST_FED
"""Slots that its cache has beyond the target's, for drafted tokens."""


class MtpDrafter(HeadDrafter):
    """Drafts with ``layer``, whose cache it owns. ``trimmed``: ids that its head is trimmed to."""

    name = MTP
    pretrained = True

    def __init__(self, layer: MtpForward, tap: int, width: int, trimmed: TrimmedHead | None = None) -> None:
        super().__init__(layer, (tap,), width)
        self._layer, self._trimmed = layer, trimmed

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """See ``Drafter.begin``."""
        super().begin(tokens, kept)
        if self._trimmed:
            self._trimmed.begin()
            self._trimmed.follow(self._tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        """See ``Drafter.commit``."""
        super().commit(tokens)
        if self._trimmed:
            self._trimmed.follow(self._tokens)

    def read(self, start: int, hidden: FloatArray) -> None:
        """See ``Drafter.read``."""
        for first in range(0, len(hidden), MOST_WAITING):
            piece = hidden[first : first + MOST_WAITING]
            # The token behind the newest position may not be told yet.
            known = not self._waiting or self._waiting[-1] + 1 < len(self._tokens)
            if known and len(self._waiting) + len(piece) > MOST_WAITING:
                self._feed(predict=False)
            super().read(start + first, piece)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        """See ``Drafter.propose``."""
        self._layer.keep = self._trimmed.keep if self._trimmed else None
        return super().propose(limit, floor)

    def nbytes(self) -> int:
        """See ``HeadDrafter.nbytes``."""
        return super().nbytes() + (self._trimmed.nbytes() if self._trimmed else 0)
