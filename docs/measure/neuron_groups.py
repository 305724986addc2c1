"""Neurons of an MLP in groups of those that fire together, and a linear router over the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_FIRING = 0.2
"""Share of a token's neurons that count as firing: those that add most to the output."""
_ROUNDS = 8
_RIDGE = 1e-2
_EVEN = 0.25
"""Spread of the router's scores: weights of the chosen begin almost alike, as in the dense model."""


@dataclass(frozen=True)
class Mixture:
    """``count`` experts of ``width`` neurons; a token takes ``chosen``, whose weights add up to ``scale``."""

    count: int
    chosen: int
    width: int
    scale: float


def fired(hidden: Tensor, down: Tensor) -> Tensor:
    """Return which neurons fire, f32[tokens, neurons] of 0 and 1: those whose part of the output is large."""
    adds = hidden.abs() * down.norm(dim=0)
    most = adds.topk(int(_FIRING * adds.shape[1]), dim=1).indices
    return torch.zeros_like(adds).scatter_(1, most, 1.0)


def groups(fires: Tensor, mixture: Mixture, seed: int) -> Tensor:
    """Return the neurons of each group, [count, width]: k-means of what fires when, in equal groups."""
    points = torch.nn.functional.normalize(fires.T, dim=1)
    made = torch.Generator().manual_seed(seed)
    centres = points[torch.randperm(len(points), generator=made)[: mixture.count]]
    order = torch.empty(0)
    for _ in range(_ROUNDS):
        order = _shared_out(points @ torch.nn.functional.normalize(centres, dim=1).T, mixture.width)
        centres = points[order].mean(dim=1)
    return order


def _shared_out(likeness: Tensor, width: int) -> Tensor:
    """Give each group its ``width`` neurons, the most alike pairs first."""
    count = likeness.shape[1]
    members: list[list[int]] = [[] for _ in range(count)]
    taken = np.zeros(len(likeness), dtype=bool)
    for pair in likeness.flatten().argsort(descending=True).tolist():
        neuron, group = divmod(pair, count)
        if not taken[neuron] and len(members[group]) < width:
            members[group].append(neuron)
            taken[neuron] = True
    return torch.tensor([sorted(one) for one in members])


def as_experts(mlp: Sequence[Tensor], order: Tensor) -> dict[str, Tensor]:
    """Return gate, up [E, width, d] and down [E, d, width]."""
    gate, up, down = mlp
    return {"gate": gate[order], "up": up[order], "down": down[:, order].transpose(0, 1).contiguous()}


def router(inputs: Tensor, hidden: Tensor, down: Tensor) -> Tensor:
    """Return f32[E, d], which of ``inputs`` [T, d] tells best whose outputs are large, by ridge regression.

    ``hidden`` [T, E * width] are the neurons' values, by group.
    """
    count, _, width = down.shape
    outputs = [hidden[:, e * width : (e + 1) * width] @ down[e].T for e in range(count)]
    large = torch.stack([one.norm(dim=1) for one in outputs], dim=1).log()
    large = large - large.mean(dim=1, keepdim=True)
    square = inputs.T @ inputs
    square += _RIDGE * square.diagonal().mean() * torch.eye(len(square))
    found = torch.linalg.solve(square, inputs.T @ large).T
    return found * (_EVEN / (inputs @ found.T).std())
