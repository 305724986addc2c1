"""A decoder of the plain kind in torch: RMS norms, grouped-query attention, rotary positions, gated MLP."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgedec.export.hyperparameters import Hyperparameters
from edgedec.training.target_weights import Floats

OUTPUT_NORM = "output_norm.weight"


class SmallModel(nn.Module):
    """All but the embedding table and the head; parameters are those of a GGUF file, "/" instead of "."."""

    def __init__(self, hyper: Hyperparameters, arrays: Mapping[str, Floats], frequencies: Floats) -> None:
        """``frequencies`` f32[head_dim / 2] of the rotary positions."""
        super().__init__()
        self._hyper = hyper
        for name, values in arrays.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(torch.from_numpy(values.copy())))
        self.register_buffer("frequencies", torch.from_numpy(frequencies.copy()), persistent=False)

    def arrays(self) -> dict[str, Floats]:
        """Return the parameters as they are now, by their names in a GGUF file."""
        return {
            name.replace("/", "."): value.detach().cpu().numpy().copy()
            for name, value in self.named_parameters()
        }

    def forward(self, embedded: Tensor, first: int = 0) -> Tensor:
        """Return the inputs [B, T - first, d] of the head for the rows from ``first`` on.

        ``embedded`` [B, T, d] are the embeddings of texts that begin at position 0.
        """
        x, turns = embedded, self._turns(embedded.shape[1])
        for layer in range(self._hyper.layers):
            block = f"blk.{layer}."
            x = x + self._attention(block, self._norm(x, block + "attn_norm.weight"), turns)
            x = x + self._mlp(block, self._norm(x, block + "ffn_norm.weight"))
        return self._norm(x[:, first:], OUTPUT_NORM)

    def _mlp(self, block: str, n: Tensor) -> Tensor:
        gate = functional.silu(self._linear(n, block + "ffn_gate"))
        return self._linear(gate * self._linear(n, block + "ffn_up"), block + "ffn_down")

    def _attention(self, block: str, n: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        q, k, v = (
            self._linear(n, block + name).unflatten(-1, (-1, self._hyper.head_dim)).transpose(1, 2)
            for name in ("attn_q", "attn_k", "attn_v")
        )
        if self._hyper.architecture.qk_norm:
            q, k = self._norm(q, block + "attn_q_norm.weight"), self._norm(k, block + "attn_k_norm.weight")
        out = self._attended(self._turned(q, turns), self._turned(k, turns), v)
        return self._linear(out.transpose(1, 2).flatten(2), block + "attn_output")

    def _attended(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the values [B, H, T, d] that each row attends to, itself and those before it."""
        if q.device.type != "cpu":
            return functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=self._hyper.attention_scale, enable_gqa=True
            )
        shared = q.shape[1] // k.shape[1]  # whole matrices: torch's backward in pieces takes twice as long
        k, v = (one.repeat_interleave(shared, dim=1) for one in (k, v))
        hidden = torch.full((q.shape[2],) * 2, float("-inf"), dtype=q.dtype).triu(1)
        scores = (q * self._hyper.attention_scale) @ k.transpose(-1, -2) + hidden
        return scores.softmax(dim=-1).to(v.dtype) @ v

    def _turns(self, count: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [T, head_dim / 2]."""
        device = self.frequencies.device
        places = torch.arange(count, dtype=torch.float64, device=device)
        angles = places[:, None] * self.frequencies.double()
        return angles.cos().float(), angles.sin().float()

    def _turned(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = (turn.to(x.dtype) for turn in turns)
        if self._hyper.architecture.interleaved:
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        bias = self._parameters.get(f"{name}.bias".replace(".", "/"))
        return functional.linear(x, self._weight(name + ".weight"), bias)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self._hyper.epsilon) * self._weight(name)

    def _weight(self, name: str) -> Tensor:
        found = self._parameters[name.replace(".", "/")]
        assert found is not None
        return found
