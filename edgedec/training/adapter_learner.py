"""Training a small model to say what a target says: the scales of its weights learn the target's replies."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from gguf import quants
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray
from torch import nn

from edgedec.export.gguf_source import open_gguf
from edgedec.export.scales import Change, Scales, grouped, scales_of
from edgedec.kernels.packing.formats import GROUP
from edgedec.telemetry.machine import describe
from edgedec.training.adapter_model import AdapterModel
from edgedec.training.batch import TextBatch
from edgedec.training.data import TrainingData
from edgedec.training.features import Features
from edgedec.training.head_model import cross_entropy
from edgedec.training.learner import Losses
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.small_source import SmallSource
from edgedec.training.target_weights import Floats

_NATIVE_HALVES = {"avx512_bf16", "amx_tile"}


class AdapterLearner:
    """The changes of ``source`` in training: it learns the replies' own next tokens."""

    def __init__(
        self,
        source: SmallSource,
        data: TrainingData,
        recipe: TrainingRecipe,
        *,
        device: str = "cpu",
        halves: bool | None = None,
    ) -> None:
        """``halves``: compute in bfloat16; None: where the machine has instructions for it."""
        self._data, self._device = data, device
        if halves is None:
            halves = device == "cuda" or bool(_NATIVE_HALVES & set(describe().features))
        self._halves = halves
        arrays, scales = _in_groups(source)
        model = AdapterModel(source.hyper, arrays, source.frequencies, scales).to(device)
        if halves:
            model.halve()
        self._model = model
        self._rows = torch.from_numpy(data.rows).to(device)
        if halves:
            self._rows = self._rows.to(torch.bfloat16)
        keep = torch.from_numpy(data.vocabulary.keep)
        sizes = [source.vocabulary, *range(source.hyper.layers)]
        self._facts = {**asdict(recipe), "kind": "adapter", "sizes": sizes, "keep": keep}

    @property
    def module(self) -> nn.Module:
        """See ``Learner``: the changes alone."""
        found: nn.Module = self._model.changes
        return found

    def facts(self) -> dict[str, Any]:
        """See ``Learner``."""
        return self._facts

    def changed(self) -> dict[str, Change]:
        """Return the changes of matrices as they are now, by their names in a GGUF file."""
        found: dict[str, Change] = self._model.changed()
        return found

    def vectors(self) -> dict[str, Floats]:
        """Return the changed vectors as they are now."""
        found: dict[str, Floats] = self._model.vectors()
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
        return torch.from_numpy(self._data.embedding(tokens)).to(self._device)

    def _autocast(self) -> AbstractContextManager[object]:
        """Compute in bfloat16, or as it is."""
        return torch.autocast(self._device, torch.bfloat16) if self._halves else nullcontext()


def _in_groups(source: SmallSource) -> tuple[dict[str, Floats], dict[str, Scales]]:
    """Return the arrays of ``source`` as an adapter finds them, and the scales of its matrices."""
    arrays, scales = dict(source.arrays), dict[str, Scales]()
    with open_gguf(source.path) as gguf:
        for name in (
            name for name, values in arrays.items() if values.ndim == 2 and values.shape[1] % GROUP == 0
        ):
            tensor = gguf.tensors[name]
            format, packed = grouped(tensor, gguf.rows(tensor, 0, tensor.shape[0]))
            scales[name] = scales_of(format, packed)
            if format != tensor.format:
                values = quants.dequantize(packed, GGMLQuantizationType[format.upper()])
                arrays[name] = values.astype(np.float32, copy=False)
    return arrays, scales
