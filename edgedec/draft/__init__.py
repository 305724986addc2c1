"""Drafters: they guess what comes next, learn from what was committed, and never change what is said."""

from __future__ import annotations

from edgedec.draft.bridge import Bridge, SameVocabulary, TextBridge
from edgedec.draft.drafter import Drafter, Keyed, Remembering
from edgedec.draft.lookahead import Foreseeing, lookup_ahead
from edgedec.draft.lookup import Lookup
from edgedec.draft.merge import merged
from edgedec.draft.model import ModelDrafter
from edgedec.draft.recycling import Recycling

__all__ = [
    "Bridge",
    "Drafter",
    "Foreseeing",
    "Keyed",
    "Lookup",
    "ModelDrafter",
    "Recycling",
    "Remembering",
    "SameVocabulary",
    "TextBridge",
    "lookup_ahead",
    "merged",
]
