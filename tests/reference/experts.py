"""The oracle for models with experts, written out from transformers' modeling files, and the op in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from gguf import quants
from numpy.typing import NDArray

from edgedec.kernels.packing.layout import FORMATS, dequantise
from tests.reference.gemma4 import Gemma4
from tests.reference.model import Array, Model, gelu_tanh, silu


class Mixture(Model):
    """One token after the other: each computes the experts that its router names."""

    @property
    def kind(self) -> str:
        return self.name.removesuffix("moe")

    def logits(self, tokens: NDArray[np.int64]) -> Array:
        return super().logits(tokens) / self.key("logit_scale", 1.0)

    def embed(self, tokens: NDArray[np.int64]) -> Array:
        return super().embed(tokens) * self.dtype(self.key("embedding_scale", 1.0))

    def residual(self, branch: Array) -> Array:
        return branch * self.dtype(self.key("residual_scale", 1.0))

    def mlp(self, block: str, x: Array) -> Array:
        if block + "ffn_gate_inp.weight" not in self.source.tensors:
            return super().mlp(block, x)
        scores = self.linear(block + "ffn_gate_inp", x)
        out = np.stack([self.mixed(block, x[t], scores[t]) for t in range(len(x))])
        if block + "ffn_gate_shexp.weight" in self.source.tensors:
            gate = x @ self.floats(block + "ffn_gate_inp_shexp.weight")
            names = [f"{block}ffn_{name}_shexp" for name in ("gate", "up")]
            inner = [self.linear(name, x) for name in names]
            shared = self.linear(block + "ffn_down_shexp", inner[0] / (1 + np.exp(-inner[0])) * inner[1])
            out = out + shared / (1 + np.exp(-gate))[:, None]
        return out

    def mixed(self, block: str, x: Array, scores: Array) -> Array:
        chosen = self.key("expert_used_count")
        if self.key("expert_gating_func") == 2:
            weights = 1 / (1 + np.exp(-scores))
            bias = f"{block}exp_probs_b.bias"
            order = weights + (self.floats(bias) if bias in self.source.tensors else 0)
            best = sorted(range(len(scores)), key=lambda expert: -order[expert])[:chosen]
            total = sum(weights[expert] for expert in best) + self.dtype(1e-6)
        else:
            weights = np.exp(scores - scores.max())
            best = sorted(range(len(scores)), key=lambda expert: -scores[expert])[:chosen]
            total = sum(weights[expert] for expert in best)
        factors = f"{block}ffn_down_exps.scale"
        if factors in self.source.tensors:
            weights = weights * self.floats(factors)
        return np.asarray(
            sum(weights[expert] / total * self.expert(block, expert, x) for expert in sorted(best)),
            self.dtype,
        )

    def expert(self, block: str, expert: int, x: Array) -> Array:
        both = f"{block}ffn_gate_up_exps"
        if both + ".weight" in self.source.tensors:
            gate, up = np.split(self.of(both, expert) @ x, 2)
        else:
            gate, up = (self.of(f"{block}ffn_{name}_exps", expert) @ x for name in ("gate", "up"))
        if self.name == "gpt-oss":
            gate, up = (
                y + self.bias(f"{block}ffn_{n}_exps", expert) for n, y in (("gate", gate), ("up", up))
            )
            gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
            inner = gate / (1 + np.exp(-1.702 * gate)) * (up + 1)
            bias = self.bias(f"{block}ffn_down_exps", expert)
            return np.asarray(self.of(f"{block}ffn_down_exps", expert) @ inner + bias, self.dtype)
        active = gelu_tanh(gate) if self.gemma else silu(gate)
        down: Array = self.of(f"{block}ffn_down_exps", expert) @ (active * up)
        return down

    def bias(self, name: str, expert: int) -> Array:
        """That of one expert."""
        tensor = self.source.tensors[name + ".bias"]
        return self.floats(name + ".bias").reshape(tensor.shape)[expert]

    def of(self, name: str, expert: int) -> Array:
        """The matrix of one expert."""
        tensor = self.source.tensors[name + ".weight"]
        rows = tensor.shape[1]
        raw = self.source.rows(tensor, expert * rows, (expert + 1) * rows)
        found: Array = quants.dequantize(raw, tensor.type).astype(self.dtype)
        return found


class SparseGemma4(Gemma4, Mixture):
    """Experts beside the MLP, with norms of their own."""

    mlp = Model.mlp

    def branch(self, block: str, x: Array) -> Array:
        mlp = self.norm(f"{block}post_ffw_norm_1.weight", super().branch(block, x))
        mean = np.mean(np.square(x), axis=-1, keepdims=True, dtype=self.dtype)
        routed = x / np.sqrt(mean + self.dtype(self.epsilon)) * self.floats(f"{block}ffn_gate_inp.scale")
        scores = self.linear(f"{block}ffn_gate_inp", routed / self.dtype(np.sqrt(x.shape[1])))
        y = self.norm(f"{block}pre_ffw_norm_2.weight", x)
        mixed = np.stack([self.mixed(block, y[t], scores[t]) for t in range(len(x))])
        return mlp + self.norm(f"{block}post_ffw_norm_2.weight", mixed)


def choose(attrs: dict[str, Any], scores: Array, choice: Array) -> Array:
    """The experts of each token, int[T, k]; ``choice`` may be empty."""
    order = scores if attrs["gating"] == b"softmax" else 1 / (1 + np.exp(-scores))
    if choice.size and attrs["gating"] != b"softmax":
        order = order + choice
    return np.argsort(-order, axis=1, kind="stable")[:, : attrs["chosen"]]


def experts(
    attrs: dict[str, Any],
    x: Array,
    scores: Array,
    packed: Array,
    *optional: Array,
    chosen: Array | None = None,
) -> Array:
    """The op over packed rows of experts, u8[experts, stride]; ``chosen``: other choices than its own."""
    choice, factor, residual = [*optional, *[np.zeros(0, np.float32)] * 3][:3]
    chosen = choose(attrs, scores, choice) if chosen is None else chosen
    weights = 1 / (1 + np.exp(-scores))
    if attrs["gating"] == b"softmax":
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = raised / raised.sum(axis=1, keepdims=True)
    y = residual.copy() if residual.size else np.zeros_like(x)
    for token, best in enumerate(chosen):
        total = weights[token, best].sum() + np.float32(attrs["epsilon"]) if attrs["normalise"] else 1
        for expert in np.sort(best):
            gate, up, down = _matrices(attrs, packed[expert])
            biases = _biases(attrs, packed[expert])
            inner, other = gate @ x[token] + biases[0], up @ x[token] + biases[1]
            if attrs["activation"] == b"clamped_silu":
                inner, other = np.minimum(inner, np.float32(7)), np.clip(other, -7, 7) + 1
                active = inner / (1 + np.exp(np.float32(-1.702) * inner))
            else:
                active = (gelu_tanh if attrs["activation"] == b"gelu_tanh" else silu)(inner)
            out = down @ (active * other) + biases[2]
            weight = weights[token, expert] / total * np.float32(attrs["scale"])
            y[token] += weight * (factor[expert] if factor.size else 1) * out
    found: Array = y
    return found


def _biases(attrs: dict[str, Any], row: Array) -> list[Array]:
    """Those of gate, up and down of an expert, or zeros."""
    if not attrs.get("biases"):
        return [np.zeros(1, np.float32)] * 3
    *_, (_, shape, place, size) = _places(attrs)
    width, start = shape[1], place + size + -(place + size) % 64
    numbers = row[start : start + 4 * (2 * width + shape[0])].view(np.float32)
    return np.split(numbers, [width, 2 * width])


def _matrices(attrs: dict[str, Any], row: Array) -> list[Array]:
    """Gate, up and down of an expert."""
    return [
        dequantise(format, row[at : at + size].reshape(FORMATS[format].packed_shape(*shape)), *shape)
        for format, shape, at, size in _places(attrs)
    ]


def _places(attrs: dict[str, Any]) -> list[tuple[str, tuple[int, int], int, int]]:
    """Format, shape, place and bytes of gate, up and down in an expert, each from a multiple of 64 on."""
    width, cols, at, found = attrs["rows"], attrs["cols"], 0, []
    shapes = ((width, cols), (width, cols), (cols, width))
    for format, shape in zip(attrs["formats"].decode().split(","), shapes, strict=True):
        tiles, of_a_tile = FORMATS[format].packed_shape(*shape)
        at += -at % 64
        found.append((format, shape, at, tiles * of_a_tile))
        at += tiles * of_a_tile
    return found
