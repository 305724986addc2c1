"""Maps between the tokens of a target and of a small model that drafts for it, prepared for a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgedec.drafters.pairing import control_tokens
from edgedec.text.tokenizer import Tokenizer

NONE = -1
"""Stands for the id of a token without a counterpart."""

Ids = NDArray[np.int32]


class VocabularyMaps(NamedTuple):
    """``to_target`` has an entry for each id of the draft model, ``to_draft`` for each of the target."""

    to_target: Ids
    to_draft: Ids


def vocabulary_maps(target: Tokenizer, draft: Tokenizer, sizes: tuple[int, int]) -> VocabularyMaps:
    """Return the maps between two vocabularies of ``sizes``, the target's first.

    A token's counterpart spells the same bytes; that of a control token has the same text, or else the same
    role. They are the answers of ``TextBridge.to_target_ids``, and of its way in.
    """
    controls = control_tokens(target, draft)
    back = {mine: theirs for theirs, mine in reversed(controls.items())}
    return VocabularyMaps(_map(draft, target, back, sizes[1]), _map(target, draft, controls, sizes[0]))


def _map(source: Tokenizer, other: Tokenizer, controls: Mapping[int, int], size: int) -> Ids:
    found = np.full(size, NONE, dtype=np.int32)
    for token in range(size):
        piece = source.spell(token)
        same = other.id_of(piece) if piece else controls.get(token)
        if same is not None:
            found[token] = same
    return found
