"""A whole small model whose groups of weights are stretched and moved in training: their quants stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.scales import MOVE, STRETCH, Change, Scales
from edgedec.kernels.packing.formats import GROUP
from edgedec.training.small_model import OUTPUT_NORM, SmallModel
from edgedec.training.target_weights import Floats

_STRETCH_STEPS = STRETCH // 4
"""Whole numbers of the file for a parameter of 1: a quarter of a scale, so that a weight changes as much on
average as by a move of 1. The quants of four bits lie 4.6 steps from their middle on average.
"""


class AdapterModel(SmallModel):
    """A ``SmallModel`` with changes of its groups and vectors, zero at first.

    The changes are rounded as the file rounds them, so the model in training is the merged one; gradients
    ignore that.
    """

    def __init__(
        self,
        hyper: Hyperparameters,
        arrays: Mapping[str, Floats],
        frequencies: Floats,
        scales: Mapping[str, Scales],
    ) -> None:
        super().__init__(hyper, arrays, frequencies)
        for one in self.parameters():
            one.requires_grad_(False)
        self._products = torch.float32
        self.changes = nn.ParameterDict()
        for name, values in arrays.items():
            key = name.replace(".", "/")
            if values.ndim == 1:
                self.changes[f"{key}|by"] = nn.Parameter(torch.zeros(len(values)))
            elif (groups := scales.get(name)) is not None:
                for part in ("stretch", "move") if groups.has_min else ("stretch",):
                    self.changes[f"{key}|{part}"] = nn.Parameter(torch.zeros(groups.scale.shape))
                both = torch.from_numpy(np.stack([groups.scale, groups.middle]))
                self.register_buffer(f"{key}|scales", both, persistent=False)

    def changed(self) -> dict[str, Change]:
        """Return the changes of matrices as they are now, by their names in a GGUF file."""
        found = {}
        for key, stretch in self.changes.items():
            name, _, part = key.rpartition("|")
            if part == "stretch":
                move = self.changes.get(f"{name}|move")
                moved = None if move is None else _bytes(move, MOVE)
                found[name.replace("/", ".")] = Change(_bytes(stretch, _STRETCH_STEPS), moved)
        return found

    def vectors(self) -> dict[str, Floats]:
        """Return the changed vectors as they are now."""
        names = [key.removesuffix("|by") for key in self.changes if key.endswith("|by")]
        return {name.replace("/", "."): self._vector(name).detach().cpu().numpy() for name in names}

    def halve(self) -> None:
        """Keep the frozen matrices in bfloat16, and compute their products in it."""
        self._products = torch.bfloat16
        for one in self._parameters.values():
            if one is not None and one.ndim > 1:
                one.data = one.data.to(torch.bfloat16)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight, key = self._weight(name + ".weight"), f"{name}.weight".replace(".", "/")
        x = x.to(weight.dtype)
        if f"{key}|stretch" in self.changes:
            move = self.changes.get(f"{key}|move")
            scales = self.get_buffer(f"{key}|scales")
            found: Tensor = Regrouped.apply(x, weight, self.changes[f"{key}|stretch"], move, scales)
        else:
            found = nn.functional.linear(x, weight)
        bias = f"{name}.bias".replace(".", "/")
        return found + self._vector(bias).to(found.dtype) if bias in self._parameters else found

    def _norm(self, x: Tensor, name: str) -> Tensor:
        found = super()._norm(x, name)
        return found if name == OUTPUT_NORM else found.to(self._products)

    def _weight(self, name: str) -> Tensor:
        key = name.replace(".", "/")
        return self._vector(key) if f"{key}|by" in self.changes else super()._weight(name)

    def _vector(self, key: str) -> Tensor:
        found = self._parameters[key]
        assert found is not None
        return found * (1 + self.changes[f"{key}|by"])


class Regrouped(torch.autograd.Function):
    """Products with a frozen matrix [N, K] whose groups are changed; only the changes get gradients.

    ``stretch``, and ``move`` or None: [N, K/32]. ``scales`` [2, N, K/32]: the groups' scales, and middles.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, stretch: Tensor, move: Tensor | None, scales: Tensor
    ) -> Tensor:
        scale, middle = scales
        rows = x.flatten(0, -2)
        by = _whole(stretch, _STRETCH_STEPS) / STRETCH
        shift = -middle * by
        if move is not None:
            shift = shift + scale * _whole(move, MOVE) / MOVE
        groups = weight.unflatten(-1, (-1, GROUP)).float()
        used = (groups * (1 + by)[..., None]).add_(shift[..., None]).flatten(-2).to(weight.dtype)
        ctx.save_for_backward(rows, used, weight, scales)
        ctx.moves = move is not None
        return (rows @ used.T).unflatten(0, x.shape[:-1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, used, weight, (scale, middle) = ctx.saved_tensors
        asked = grad.flatten(0, -2)
        back = (asked @ used).unflatten(0, grad.shape[:-1]) if ctx.needs_input_grad[0] else None
        of_groups = (asked.T @ rows).float().unflatten(-1, (-1, GROUP))
        together = of_groups.sum(-1)
        stretched = (of_groups * weight.unflatten(-1, (-1, GROUP))).sum(-1) - middle * together
        moved = together * scale if ctx.moves else None
        return back, None, stretched * (_STRETCH_STEPS / STRETCH), moved, None


def _whole(parameter: Tensor, steps: int) -> Tensor:
    """Return a change in whole numbers, as an adapter's file has it."""
    return (parameter * steps).round().clamp(-127, 127)


def _bytes(parameter: Tensor, steps: int) -> NDArray[np.int8]:
    found: NDArray[np.int8] = _whole(parameter, steps).detach().cpu().numpy().astype(np.int8)
    return found
