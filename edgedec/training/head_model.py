"""The head of ``export.draft_head.weights`` in torch, unrolled over its own outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from edgedec.export.draft_head.weights import HeadWeights
from edgedec.training.unrolling import visible

_ROWS = 256
"""Rows of logits that exist at a time."""
_SIZES = ("hidden", "heads", "kv_heads", "head_dim", "ffn", "rope_base", "epsilon", "keep")


class DraftHead(nn.Module):
    """A drafting head; parameters have the names and shapes of ``HeadWeights``."""

    def __init__(self, weights: HeadWeights, rows: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        """``rows`` f32[k, d]: the target's head over the kept ids; not used by a head that has its own."""
        super().__init__()
        self.facts = {name: getattr(weights, name) for name in _SIZES}
        for name in weights.shapes():
            self.register_parameter(name, nn.Parameter(torch.from_numpy(getattr(weights, name).copy())))
        if weights.head is None:
            self.register_buffer("rows", torch.from_numpy(rows), persistent=False)

    @property
    def matrix(self) -> Tensor:
        """The matrix [k, d] that makes logits."""
        own = self._parameters.get("head")
        return self.rows if own is None else own

    def weights(self) -> HeadWeights:
        """Return the weights as they are now."""
        arrays = {name: value.detach().cpu().numpy().copy() for name, value in self.named_parameters()}
        return HeadWeights(**self.facts, **arrays)

    def unrolled(self, embedded: Tensor, taps: Tensor, steps: int, first: int = 0) -> Iterator[Tensor]:
        """Yield the outputs [B, T - first, d] of each step for the rows from ``first`` on.

        ``embedded`` [B, T, d] are the embeddings of the tokens, ``taps`` [B, T, 3 d] their hidden states.
        Rows before ``first`` are only attended to. See ``training.unrolling`` for rows and steps.
        """
        state, start = functional.linear(taps, self.fc), 0
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for step in range(steps):
            count = state.shape[1]
            ahead = functional.pad(embedded[:, 1 + step + start :], (0, 0, 0, min(1 + step, count)))
            x = torch.cat([self._norm(ahead, self.norm_embed), self._norm(state, self.norm_state)], dim=-1)
            cos, sin = self._angles(count, start + step, x)
            keys.append(_turned(self._heads(x, self.attn_k), cos, sin))
            values.append(self._heads(x, self.attn_v))
            asked = slice(first - start, None)
            queries = _turned(self._heads(x[:, asked], self.attn_q), cos[asked], sin[asked])
            state, start = state[:, asked], first
            state = state + functional.linear(self._attend(queries, keys, values), self.attn_output)
            n = self._norm(state, self.ffn_norm)
            gated = functional.silu(functional.linear(n, self.ffn_gate)) * functional.linear(n, self.ffn_up)
            state = state + functional.linear(gated, self.ffn_down)
            yield state

    def normed(self, outputs: Tensor) -> Tensor:
        """Return the input of the matrix that makes logits."""
        return self._norm(outputs, self.output_norm)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.facts["epsilon"]) * weight

    def _heads(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.linear(x, weight).unflatten(-1, (-1, self.facts["head_dim"]))

    def _angles(self, count: int, first: int, like: Tensor) -> tuple[Tensor, Tensor]:
        half = self.facts["head_dim"] // 2
        frequencies = self.facts["rope_base"] ** (-np.arange(half, dtype=np.float64) / half)
        angles = torch.from_numpy(np.arange(first, first + count)[:, None] * frequencies)
        cos, sin = angles.cos().float(), angles.sin().float()
        return cos[:, None].to(like.device), sin[:, None].to(like.device)

    def _attend(self, queries: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """Attend to step 0 of the rows up to each one's own, and to its own later steps.

        Queries are of the last rows, as later steps are.
        """
        count, dim = keys[0].shape[1], queries.shape[-1]
        q = queries.unflatten(2, (self.facts["kv_heads"], -1)) * dim**-0.5
        scores = torch.einsum("btgsd,bugd->bgstu", q, keys[0])
        sees = torch.from_numpy(visible(count)[count - q.shape[1] :]).to(q.device)
        scores = scores.masked_fill(~sees, float("-inf"))
        own = [torch.einsum("btgsd,btgd->bgst", q, key)[..., None] for key in keys[1:]]
        shares = torch.cat([scores, *own], dim=-1).float().softmax(dim=-1).to(values[0].dtype)
        out = torch.einsum("bgstu,bugd->btgsd", shares[..., :count], values[0])
        for step, value in enumerate(values[1:]):
            out = out + torch.einsum("bgst,btgd->btgsd", shares[..., count + step], value)
        return out.flatten(2)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class _CrossEntropy(torch.autograd.Function):
    """Sum of cross entropies of rows to sparse targets. Keeps gradients instead of logits."""

    @staticmethod
    def forward(
        ctx: Any, normed: Tensor, matrix: Tensor, places: Tensor, probs: Tensor
    ) -> tuple[Tensor, Tensor]:
        grad_rows, grad_matrix = torch.zeros_like(normed), None
        if ctx.needs_input_grad[1]:
            grad_matrix = torch.zeros_like(matrix)
        loss = normed.new_zeros(())
        guesses = []
        for start in range(0, len(normed), _ROWS):
            part = slice(start, start + _ROWS)
            logits = (normed[part].to(matrix.dtype) @ matrix.T).float()
            guesses.append(logits.argmax(dim=1))
            logits -= logits.logsumexp(dim=1, keepdim=True)
            loss -= (probs[part] * logits.gather(1, places[part])).sum()
            grad = logits.exp_().mul_(probs[part].sum(dim=1, keepdim=True))
            grad.scatter_add_(1, places[part], -probs[part])
            grad = grad.to(matrix.dtype)
            grad_rows[part] = grad @ matrix
            if grad_matrix is not None:
                grad_matrix += grad.T @ normed[part].to(matrix.dtype)
        ctx.save_for_backward(grad_rows, grad_matrix)
        found = torch.cat(guesses) if guesses else torch.zeros(0, dtype=torch.int64, device=normed.device)
        ctx.mark_non_differentiable(found)
        return loss, found

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        return rows * grad_loss, None if matrix is None else matrix * grad_loss, None, None


def cross_entropy(normed: Tensor, matrix: Tensor, places: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum over rows of -sum_j probs_j log softmax(matrix @ row)[places_j], and each row's argmax.

    ``normed`` [n, d], ``matrix`` [k, d], ``places`` int64[n, m], ``probs`` [n, m].
    """
    loss, guesses = _CrossEntropy.apply(normed, matrix, places, probs)
    return loss, guesses
