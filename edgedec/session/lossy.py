"""Which policy a full cache has: what ``--when-full`` says, for a model and what drafts for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.draft import lookup_ahead
from edgedec.memory.policy import Policy
from edgedec.memory.sliding import Sliding
from edgedec.memory.speckv import SpecKV
from edgedec.session.fit import SLIDE, SPECKV

if TYPE_CHECKING:
    from edgedec.core.types import Forward
    from edgedec.speculation import Speculation


def policy_for(
    when_full: str | None, forward: Forward, speculation: Speculation | None = None
) -> Policy | None:
    """None for what ends a reply or drops turns. Raises what ``Sliding`` and ``SpecKV`` do.

    A model that drafts says what follows, and else lookup does: with drafts and without, the same tokens.
    """
    if when_full == SLIDE:
        return Sliding(forward)
    if when_full == SPECKV:
        return SpecKV(forward, speculation.ahead if speculation else lookup_ahead)
    return None
