"""The eviction policy of a full cache, by its name."""

from __future__ import annotations

from edgedec.core.cache_config import SLIDE, SPECKV
from edgedec.core.forward import Forward
from edgedec.eviction.policy import Policy
from edgedec.eviction.sliding import Sliding
from edgedec.eviction.speckv import Ahead, SpecKV


def policy_for(when_full: str | None, forward: Forward, ahead: Ahead) -> Policy | None:
    """Return the policy, or None for ways that evict nothing.

    ``ahead`` drafts tokens that may follow. Raises the errors of ``Sliding`` and ``SpecKV``.
    """
    if when_full == SLIDE:
        return Sliding(forward)
    if when_full == SPECKV:
        return SpecKV(forward, ahead)
    return None
