"""Drafters: they guess the next tokens, learn from those that are committed, and never change a token."""

from __future__ import annotations

from edgedec.draft.drafter import Drafter, DrafterCapabilities
from edgedec.draft.lookahead import lookup_ahead
from edgedec.draft.lookup import Lookup
from edgedec.draft.recycling import Recycling

__all__ = [
    "Drafter",
    "DrafterCapabilities",
    "Lookup",
    "Recycling",
    "lookup_ahead",
]
