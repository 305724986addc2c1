"""Batches of features as padded arrays, with the target's guesses over the ids that a head predicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass
from edgedec.training.features import BEST, Features


class KeptIds:
    """The ids that a head predicts: ``keep`` int64[k], ascending, of ``size`` ids of the target."""

    def __init__(self, keep: NDArray[np.int64], size: int) -> None:
        self.keep = keep
        self._places = np.full(size, -1, dtype=np.int64)
        self._places[keep] = np.arange(len(keep))

    def places(self, ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the index in ``keep`` of each id, -1 for the others."""
        found: NDArray[np.int64] = self._places[ids]
        return found


@dataclass(frozen=True, slots=True)
class TextBatch:
    """B texts of up to T tokens, padded at the end with zeros.

    Row t of the last three says what follows token t.
    """

    tokens: NDArray[np.int64]
    """[B, T]"""
    hidden: NDArray[np.float16]
    """[B, T, W]"""
    places: NDArray[np.int64]
    """[B, T, 8] indices into the kept ids; those of ids outside are 0, with probability 0."""
    probs: NDArray[np.float32]
    """[B, T, 8], of sum 1 over the kept ids where the row is taught."""
    taught: NDArray[np.bool_]
    """[B, T]: rows of the reply whose best token is kept."""

    first: int
    """The first row of which any text needs an output: that of the last token of a prompt."""

    @property
    def size(self) -> int:
        """Tokens with padding."""
        return int(self.tokens.size)


def batch_of(texts: Sequence[Features], vocabulary: KeptIds) -> TextBatch:
    """Return the batch of ``texts``."""
    count, longest = len(texts), max(len(text.tokens) for text in texts)
    batch = TextBatch(
        np.zeros((count, longest), dtype=np.int64),
        np.zeros((count, longest, texts[0].hidden.shape[1]), dtype=np.float16),
        np.zeros((count, longest, BEST), dtype=np.int64),
        np.zeros((count, longest, BEST), dtype=np.float32),
        np.zeros((count, longest), dtype=np.bool_),
        min(text.first for text in texts),
    )
    for row, text in enumerate(texts):
        end, first = len(text.tokens), text.first
        batch.tokens[row, :end] = text.tokens
        batch.hidden[row, :end] = text.hidden
        places = vocabulary.places(text.ids)
        probs = np.where(places >= 0, np.exp(text.logp.astype(np.float32)), np.float32(0))
        mass = probs.sum(axis=1, keepdims=True)
        width = places.shape[1]
        batch.places[row, first:end, :width] = np.maximum(places, 0)
        batch.probs[row, first:end, :width] = probs / np.maximum(mass, np.float32(1e-9))
        batch.taught[row, first:end] = (places[:, 0] >= 0) & (mass[:, 0] > 0)
    return batch
