"""Distilling a small model: it learns the target's probabilities of the next token."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgedec.training.batch import TextBatch
from edgedec.training.data import TrainingData
from edgedec.training.features import Features
from edgedec.training.head_model import cross_entropy
from edgedec.training.learner import Losses
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.small_model import SmallModel
from edgedec.training.small_source import SmallSource
from edgedec.training.target_weights import Floats


class SmallLearner:
    """The layers of ``source`` in training; embedding and head stay as they are in it."""

    def __init__(
        self, source: SmallSource, data: TrainingData, recipe: TrainingRecipe, device: str = "cpu"
    ) -> None:
        self._source, self._data, self._device = source, data, device
        self._model: SmallModel = SmallModel(source.hyper, source.arrays, source.frequencies).to(device)
        self._rows = torch.from_numpy(data.rows).to(device)
        sizes = [source.vocabulary, *source.kept, *(n for a in source.arrays.values() for n in a.shape)]
        keep = torch.from_numpy(data.vocabulary.keep)
        self._facts = {**asdict(recipe), "kind": "small", "sizes": sizes, "keep": keep}

    @property
    def module(self) -> SmallModel:
        """See ``Learner``."""
        return self._model

    def facts(self) -> dict[str, Any]:
        """See ``Learner``."""
        return self._facts

    def arrays(self) -> Mapping[str, Floats]:
        """Return the layers as they are now, by their names in a GGUF file."""
        found: Mapping[str, Floats] = self._model.arrays()
        return found

    def losses(self, batch: TextBatch) -> Losses:
        """See ``Learner``. There is one depth: a model reads its own guesses as it reads the target's."""
        with self._autocast():
            normed = self._model(self._embedded(batch.tokens), batch.first)
            rows = torch.from_numpy(batch.taught[:, batch.first :]).to(self._device)
            places, probs = (
                torch.from_numpy(array[:, batch.first :]).to(self._device)[rows]
                for array in (batch.places, batch.probs)
            )
            asked, matrix = normed[rows], self._rows
            if self._device == "cuda":
                matrix = matrix.to(torch.bfloat16)
            total, guesses = cross_entropy(asked, matrix, places, probs)
        total = total / max(len(asked), 1)
        right = float((guesses == places[:, 0]).float().mean()) if len(asked) else 0.0
        return Losses(total, [float(total.detach())], [right])

    def hits(self, text: Features, depths: int) -> NDArray[np.bool_]:
        """See ``Learner``; rows are those of the reply whose guesses are all within it.

        Guesses are among the ids that it learned. One at depth i counts only after right ones, so it may be
        made after the target's own tokens.
        """
        tokens = text.tokens.astype(np.int64)
        with torch.no_grad(), self._autocast():
            normed = self._model(self._embedded(tokens[None]), text.first)[0]
            best = (normed.to(self._rows.dtype) @ self._rows.T).argmax(dim=1).cpu().numpy()
        right = self._data.vocabulary.keep[best[:-1]] == tokens[text.first + 1 :]
        rows = range(1, len(right) + 1 - depths)
        return np.array([right[row : row + depths] for row in rows], dtype=np.bool_).reshape(-1, depths)

    def _embedded(self, tokens: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self._data.embedding.gather(tokens)).to(self._device)

    def _autocast(self) -> AbstractContextManager[object]:
        """Compute in bfloat16 on a GPU."""
        return torch.autocast("cuda", torch.bfloat16) if self._device == "cuda" else nullcontext()
