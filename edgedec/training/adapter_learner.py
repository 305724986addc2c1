"""A whole small model with low-rank changes in training: its own weights stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edgedec.export.adapter import Low
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.telemetry.machine import describe
from edgedec.training.data import TrainingData
from edgedec.training.recipe import TrainingRecipe
from edgedec.training.small_learner import SmallLearner
from edgedec.training.small_model import OUTPUT_NORM, SmallModel
from edgedec.training.small_source import SmallSource
from edgedec.training.target_weights import Floats

_NATIVE_HALVES = {"avx512_bf16", "amx_tile"}


class AdapterModel(SmallModel):
    """A ``SmallModel`` whose matrices have a change of rank ``rank`` each, zero at first."""

    def __init__(
        self, hyper: Hyperparameters, arrays: Mapping[str, Floats], frequencies: Floats, rank: int, seed: int
    ) -> None:
        super().__init__(hyper, arrays, frequencies)
        for one in self.parameters():
            one.requires_grad_(False)
        self._products = torch.float32
        self.low = nn.ParameterDict()
        draw = np.random.default_rng(seed)
        for name, values in arrays.items():
            if values.ndim == 1:
                continue
            rows, cols = values.shape
            down = draw.standard_normal((rank, cols)).astype(np.float32) * np.float32(cols**-0.5)
            self.low[_key(name, "down")] = nn.Parameter(torch.from_numpy(down))
            self.low[_key(name, "up")] = nn.Parameter(torch.zeros(rows, rank))

    def pairs(self) -> dict[str, Low]:
        """Return the changes as they are now, by the names of the matrices in a GGUF file."""
        found = {}
        for key, up in self.low.items():
            if key.endswith("|up"):
                name = key.removesuffix("|up")
                both = (self.low[f"{name}|down"], up)
                down16, up16 = (one.detach().cpu().numpy().astype(np.float16) for one in both)
                found[name.replace("/", ".")] = (down16, up16)
        return found

    def halve(self) -> None:
        """Keep the frozen matrices in bfloat16, and compute their products in it."""
        self._products = torch.bfloat16
        for one in self._parameters.values():
            if one is not None and one.ndim > 1:
                one.data = one.data.to(torch.bfloat16)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight = self._weight(name + ".weight")
        down, up = (self.low[_key(name + ".weight", part)].to(weight.dtype) for part in ("down", "up"))
        found: Tensor = Changed.apply(x.to(weight.dtype), weight, down, up)
        bias = self._parameters.get(f"{name}.bias".replace(".", "/"))
        return found if bias is None else found + bias

    def _norm(self, x: Tensor, name: str) -> Tensor:
        found = super()._norm(x, name)
        return found if name == OUTPUT_NORM else found.to(self._products)


class Changed(torch.autograd.Function):
    """Products with a frozen matrix and its change; only the change gets a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, down: Tensor, up: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        inner = rows @ down.T
        ctx.save_for_backward(rows, inner, weight, down, up)
        return (rows @ weight.T).addmm_(inner, up.T).unflatten(0, x.shape[:-1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, inner, weight, down, up = ctx.saved_tensors
        asked = grad.flatten(0, -2)
        through = asked @ up
        back = (asked @ weight).addmm_(through, down) if ctx.needs_input_grad[0] else None
        return (
            None if back is None else back.unflatten(0, grad.shape[:-1]),
            None,
            through.T @ rows,
            asked.T @ inner,
        )


class AdapterLearner(SmallLearner):
    """The changes of ``source`` in training."""

    def __init__(
        self,
        source: SmallSource,
        data: TrainingData,
        recipe: TrainingRecipe,
        *,
        rank: int,
        device: str = "cpu",
        halves: bool | None = None,
    ) -> None:
        """``halves``: compute in bfloat16; None: where the machine has instructions for it."""
        self._source, self._data, self._device = source, data, device
        if halves is None:
            halves = device == "cuda" or bool(_NATIVE_HALVES & set(describe().features))
        self._halves = halves
        model = AdapterModel(source.hyper, source.arrays, source.frequencies, rank, recipe.seed).to(device)
        if halves:
            model.halve()
        self._model = self._adapted = model
        self._rows = torch.from_numpy(data.rows).to(device)
        if halves:
            self._rows = self._rows.to(torch.bfloat16)
        keep = torch.from_numpy(data.vocabulary.keep)
        sizes = [source.vocabulary, rank, *source.kept]
        self._facts = {**asdict(recipe), "kind": "adapter", "sizes": sizes, "keep": keep}

    @property
    def module(self) -> nn.Module:
        """See ``Learner``: the changes alone."""
        found: nn.Module = self._adapted.low
        return found

    def pairs(self) -> Mapping[str, Low]:
        """Return the changes as they are now."""
        found: Mapping[str, Low] = self._adapted.pairs()
        return found

    def _autocast(self) -> AbstractContextManager[object]:
        """Compute in bfloat16, or as it is."""
        return torch.autocast(self._device, torch.bfloat16) if self._halves else nullcontext()


def _key(name: str, part: str) -> str:
    return f"{name.replace('.', '/')}|{part}"
