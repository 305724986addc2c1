"""Drafters: they guess what comes next, learn from what was committed, and never change what is said."""

from __future__ import annotations

from edgedec.draft.drafter import Drafter, Remembering
from edgedec.draft.lookup import Lookup
from edgedec.draft.merge import merged
from edgedec.draft.recycling import Recycling

__all__ = ["Drafter", "Lookup", "Recycling", "Remembering", "merged"]
