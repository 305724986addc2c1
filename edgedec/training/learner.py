"""Drafters as a trainer sees them: losses of a batch and guesses on held-out text. A drafting head is one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgedec.core.quick_dataclass import dataclass
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.training.batch import TextBatch, batch_of
from edgedec.training.data import TrainingData
from edgedec.training.features import Features
from edgedec.training.head_model import DraftHead, cross_entropy
from edgedec.training.recipe import TrainingRecipe


@dataclass(frozen=True, slots=True)
class Losses:
    """The results of one batch: the ``total`` to minimise, and for the log mean losses and shares of right
    guesses by depth.
    """

    total: torch.Tensor
    loss: list[float]
    right: list[float]


class Learner(Protocol):
    """A drafter in training."""

    @property
    def module(self) -> nn.Module:
        """The parameters, on the device that computes."""

    def facts(self) -> dict[str, Any]:
        """Return what a checkpoint must share: sizes, recipe, kept ids."""

    def losses(self, batch: TextBatch) -> Losses:
        """Compute one batch."""

    def hits(self, text: Features, depths: int) -> NDArray[np.bool_]:
        """Return bool[rows, depths]: whether guess i of the chain at a row was the target's token."""


class HeadLearner:
    """A drafting head, unrolled over its own outputs, that begins as ``start``."""

    def __init__(
        self, start: HeadWeights, data: TrainingData, recipe: TrainingRecipe, device: str = "cpu"
    ) -> None:
        self._data, self._recipe, self._device = data, recipe, device
        self._head: DraftHead = DraftHead(start, data.rows).to(device)
        self._facts = {**asdict(recipe), "sizes": _sizes(start), "keep": torch.from_numpy(start.keep)}

    @property
    def module(self) -> DraftHead:
        """See ``Learner``."""
        return self._head

    def facts(self) -> dict[str, Any]:
        """See ``Learner``."""
        return self._facts

    def weights(self) -> HeadWeights:
        """Return the head as it is now."""
        found: HeadWeights = self._head.weights()
        return found

    def losses(self, batch: TextBatch) -> Losses:
        """See ``Learner``."""
        places, probs, taught = (
            torch.from_numpy(array).to(self._device) for array in (batch.places, batch.probs, batch.taught)
        )
        total = torch.zeros((), device=self._device)
        losses, right = [], []
        with self._autocast():
            first = batch.first
            for step, outputs in enumerate(self._outputs(batch, self._recipe.depths, first)):
                answers = slice(first + 1 + step, None)
                rows = taught[:, answers]
                asked = self._head.normed(outputs[:, : rows.shape[1]][rows])
                at = places[:, answers][rows]
                loss, guesses = cross_entropy(asked, self._matrix(), at, probs[:, answers][rows])
                loss = loss / max(len(asked), 1)
                total = total + self._recipe.decay**step * loss
                losses.append(float(loss.detach()))
                right.append(float((guesses == at[:, 0]).float().mean()) if len(asked) else 0.0)
        return Losses(total, losses, right)

    def hits(self, text: Features, depths: int) -> NDArray[np.bool_]:
        """See ``Learner``; rows are those of the reply whose guesses are all within it."""
        batch = batch_of([text], self._data.vocabulary)
        rows = range(text.first + 1, len(text.tokens) - 1 - depths)
        found = np.zeros((len(rows), depths), dtype=np.bool_)
        if not rows:
            return found
        with torch.no_grad(), self._autocast():
            for step, outputs in enumerate(self._outputs(batch, depths, rows.start)):
                normed = self._head.normed(outputs[0, : len(rows)])
                logits = normed.to(self._matrix().dtype) @ self._matrix().T
                drafted = self._data.vocabulary.keep[logits.argmax(dim=1).cpu().numpy()]
                found[:, step] = drafted == batch.tokens[0, rows.start + 2 + step : rows.stop + 2 + step]
        return found

    def _outputs(self, batch: TextBatch, depths: int, first: int) -> Any:
        embedded = torch.from_numpy(self._data.embedding(batch.tokens)).to(self._device)
        taps = torch.from_numpy(batch.hidden).to(self._device).float()
        return self._head.unrolled(embedded, taps, depths, first)

    def _matrix(self) -> torch.Tensor:
        matrix = self._head.matrix
        return matrix.to(torch.bfloat16) if self._device == "cuda" else matrix

    def _autocast(self) -> AbstractContextManager[object]:
        """Compute in bfloat16 on a GPU."""
        return torch.autocast("cuda", torch.bfloat16) if self._device == "cuda" else nullcontext()


def _sizes(head: HeadWeights) -> Sequence[int]:
    return [head.hidden, head.heads, head.kv_heads, head.head_dim, head.ffn, int(head.head is not None)]
