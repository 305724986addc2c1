"""The data of a training run: features by index for training and for measuring, and the target's tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass
from edgedec.training.batch import KeptIds, TextBatch, batch_of
from edgedec.training.features import FeatureCache, Features
from edgedec.training.target_weights import Floats


@dataclass(frozen=True, slots=True)
class TrainingData:
    """``lengths`` are the tokens of each of ``train``, known without computing its features."""

    train: Sequence[Features] | FeatureCache
    lengths: Sequence[int]
    held_out: Sequence[Features] | FeatureCache
    vocabulary: KeptIds
    embedding: Callable[[NDArray[np.int64]], Floats]
    """Returns rows of the target's embedding by their ids, of any shape: f32[..., d]."""
    rows: Floats
    """[k, d] of the target's head: the rows of the kept ids."""

    def batch(self, indices: Sequence[int]) -> TextBatch:
        """Return the batch of these training texts."""
        return batch_of([self.train[index].end_of_prompt() for index in indices], self.vocabulary)
