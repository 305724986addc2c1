"""A real dense model turned into one with experts, so that routing can be measured. It is never shipped.

Neurons of an MLP that fire together become an expert, as in MoEfication (Zhang et al., 2022). Routers begin
with the linear map that tells best whose outputs are large. All of it then learns the dense model's
probabilities.

`python -m docs.measure.real_experts DENSE.gguf OUT.gguf --rollouts FOLDER` needs torch (extra train) and
some minutes of one core. The folder has replies by `edgedec draft rollouts`; those held out measure it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import torch
from gguf.constants import GGUFValueType
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from docs.measure.neuron_groups import Mixture, as_experts, fired, groups, router
from edgedec.export.calibration.search import quantise
from edgedec.export.gguf_writer import ARCHITECTURE, GgufTensor, Value, metadata_of, write_gguf
from edgedec.training.rollouts import RolloutStore
from edgedec.training.small_model import SmallModel
from edgedec.training.small_source import EMBEDDING, HEAD, SmallSource
from edgedec.training.target_weights import Floats

TEXT_TOKENS, BATCH = 256, 2
OBSERVED_TOKENS = 4096
PEAK_RATE = 1e-3
ROUTER_RATE = 4.0
"""Factor on the rate of routers, whose gradients are small."""


class SparseModel(SmallModel):
    """A SmallModel with experts for MLPs: parameters end in _exps, [E, rows, cols], and in gate_inp."""

    mixture: Mixture
    routed: list[tuple[Tensor, Tensor]] | None = None
    """If it is a list, layers append their routers' inputs [tokens, d] and the chosen experts to it."""

    def _mlp(self, block: str, n: Tensor) -> Tensor:
        flat = n.flatten(0, -2)
        with torch.autocast("cpu", enabled=False):
            scores = functional.linear(flat, self._weight(block + "ffn_gate_inp.weight"))
        best, chosen = scores.topk(self.mixture.chosen, dim=-1)
        if self.routed is not None:
            self.routed.append((flat, chosen))
        weights = (best.softmax(dim=-1) * self.mixture.scale).bfloat16()
        parts = (self._weight(f"{block}ffn_{part}_exps.weight") for part in ("gate", "up", "down"))
        inputs, out = flat.bfloat16(), torch.zeros_like(flat)
        for expert, (gate, up, down) in enumerate(
            zip(*(one.bfloat16().unbind() for one in parts), strict=True)
        ):
            tokens, rank = (chosen == expert).nonzero(as_tuple=True)
            x = inputs[tokens]
            h = functional.silu(functional.linear(x, gate)) * functional.linear(x, up)
            y = functional.linear(h, down) * weights[tokens, rank, None]
            out.index_add_(0, tokens, y.float())
        return out.view(n.shape)


class WatchedModel(SmallModel):
    """A dense model that keeps what goes into its MLPs: [tokens, d] of each layer."""

    def __init__(self, source: SmallSource) -> None:
        super().__init__(source.hyper, source.arrays, source.frequencies)
        self.inputs: list[Tensor] = []

    def _mlp(self, block: str, n: Tensor) -> Tensor:
        self.inputs.append(n.flatten(0, -2).float())
        return super()._mlp(block, n)


@dataclass(frozen=True)
class Texts:
    """Token ids [n, TEXT_TOKENS], and the model's table of embeddings and its head."""

    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    table: Tensor
    head: Tensor

    def embedded(self, tokens: NDArray[np.int64]) -> Tensor:
        return self.table[torch.from_numpy(tokens)]

    def logits(self, normed: Tensor) -> Tensor:
        return functional.linear(normed.to(self.head.dtype), self.head).float()


def read_texts(folder: Path, source: SmallSource) -> Texts:
    """Cut the replies, one behind the other, into texts of one length."""
    found = []
    for held_out in (False, True):
        ids = [one.prompt + one.reply for one in RolloutStore(folder).chosen(held_out=held_out)]
        flat = np.concatenate([np.array(one, np.int64) for one in ids])
        found.append(flat[: flat.size // TEXT_TOKENS * TEXT_TOKENS].reshape(-1, TEXT_TOKENS))
    return Texts(*found, *tables_of(source))


def tables_of(source: SmallSource) -> tuple[Tensor, Tensor]:
    """Return the table of embeddings and the head."""
    every = np.arange(source.vocabulary)
    table = torch.from_numpy(source.embedding.gather(every)).bfloat16()
    tied = source.head is source.embedding
    return table, table if tied else torch.from_numpy(source.head.gather(every)).bfloat16()


def sparse_arrays(dense: WatchedModel, texts: Texts, mixture: Mixture) -> dict[str, Floats]:
    """Return the parameters of a model with experts: the dense ones', grouped, and routers."""
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        dense(texts.embedded(texts.train[: OBSERVED_TOKENS // TEXT_TOKENS]))
    arrays = dense.arrays()
    for layer, inputs in enumerate(dense.inputs):
        begin = f"blk.{layer}.ffn_"
        mlp = [torch.from_numpy(arrays.pop(f"{begin}{part}.weight")) for part in ("gate", "up", "down")]
        hidden = functional.silu(inputs @ mlp[0].T) * (inputs @ mlp[1].T)
        order = groups(fired(hidden, mlp[2]), mixture, seed=layer)
        parts = as_experts(mlp, order)
        arrays |= {f"{begin}{part}_exps.weight": one.numpy() for part, one in parts.items()}
        arrays[f"{begin}gate_inp.weight"] = router(inputs, hidden[:, order.flatten()], parts["down"]).numpy()
    dense.inputs.clear()
    return arrays


def distil(sparse: SparseModel, dense: SmallModel, texts: Texts, minutes: float) -> None:
    """Teach ``sparse`` the probabilities of ``dense`` for so many minutes of processor time, or one epoch."""
    learnt = [(name, one) for name, one in sparse.named_parameters() if "_exps" in name or "gate_inp" in name]
    for one in sparse.parameters():
        one.requires_grad_(False)
    for _, one in learnt:
        one.requires_grad_(True)
    routers = [one for name, one in learnt if "gate_inp" in name]
    experts = [one for name, one in learnt if "gate_inp" not in name]
    rates = [{"params": experts}, {"params": routers, "lr": PEAK_RATE * ROUTER_RATE}]
    optimiser = torch.optim.AdamW(rates, lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.0)
    start, batches = time.process_time(), np.array_split(texts.train, len(texts.train) // BATCH)
    peaks = [group["lr"] for group in optimiser.param_groups]
    for step, tokens in enumerate(batches):
        spent = (time.process_time() - start) / (60 * minutes)
        done = max(spent, step / len(batches))
        if done >= 1:
            break
        for group, peak in zip(optimiser.param_groups, peaks, strict=True):
            group["lr"] = peak * min(1.0, (step + 1) / 10) * (1.0 - done)
        loss = divergence(sparse, dense, texts, tokens)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([one for _, one in learnt], 1.0)
        optimiser.step()
        if step % 2 == 0:
            click.echo(f"step {step} of {len(batches)}: {float(loss.detach()):.4f}")


def divergence(sparse: SmallModel, dense: SmallModel, texts: Texts, tokens: NDArray[np.int64]) -> Tensor:
    """Return KL(dense || sparse) in nats a token."""
    embedded = texts.embedded(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            right = texts.logits(dense(embedded)).log_softmax(-1).flatten(0, 1)
        found = texts.logits(sparse(embedded)).log_softmax(-1).flatten(0, 1)
    return functional.kl_div(found, right, reduction="batchmean", log_target=True)


def quality(model: SmallModel, dense: SmallModel, texts: Texts, most: int = 8) -> dict[str, float]:
    """Return perplexity on held-out replies, divergence from ``dense``, share of the same best tokens."""
    loss = same = kl = 0.0
    parts = np.array_split(texts.held_out[:most], max(1, min(most, len(texts.held_out)) // BATCH))
    for tokens in parts:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            found, right = (texts.logits(one(texts.embedded(tokens))) for one in (model, dense))
            loss += float(
                functional.cross_entropy(
                    found[:, :-1].flatten(0, 1), torch.from_numpy(tokens[:, 1:]).flatten()
                )
            )
            same += float((found.argmax(-1) == right.argmax(-1)).float().mean())
            pair = (one.log_softmax(-1).flatten(0, 1) for one in (found, right))
            kl += float(functional.kl_div(*pair, reduction="batchmean", log_target=True))
    count = len(parts)
    return {
        "perplexity": float(np.exp(loss / count)),
        "divergence": kl / count,
        "same best token": same / count,
    }


def foreseen(model: SparseModel, texts: Texts, most: int = 4) -> float:
    """Return the share of a layer's experts that its router names on the input of the layer before."""
    model.routed = []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        model(texts.embedded(texts.held_out[:most]))
    weights, named = model.arrays(), 0.0
    for layer, ((inputs, _), (_, chosen)) in enumerate(pairwise(model.routed)):
        here, there = (torch.from_numpy(weights[f"blk.{n}.ffn_norm.weight"]) for n in (layer, layer + 1))
        scores = inputs / here * there @ torch.from_numpy(weights[f"blk.{layer + 1}.ffn_gate_inp.weight"]).T
        guessed = torch.zeros_like(scores).scatter_(1, scores.topk(chosen.shape[1]).indices, 1.0)
        named += float(guessed.gather(1, chosen).mean())
    count, model.routed = len(model.routed) - 1, None
    return named / count


def write(path: Path, source: SmallSource, model: SparseModel, formats: dict[str, str]) -> None:
    """Write the model as a file of architecture granitemoe, whose attention is Llama's."""
    old, metadata = source.hyper.architecture.name, {}
    for key, value in metadata_of(source.path).items():
        metadata[key.replace(f"{old}.", "granitemoe.", 1) if key.startswith(f"{old}.") else key] = value
    metadata[ARCHITECTURE] = Value("granitemoe", GGUFValueType.STRING)
    mixture = model.mixture
    sizes = {"count": mixture.count, "used_count": mixture.chosen, "feed_forward_length": mixture.width}
    metadata |= {
        f"granitemoe.expert_{name}": Value(size, GGUFValueType.UINT32) for name, size in sizes.items()
    }
    metadata["granitemoe.expert_weights_scale"] = Value(mixture.scale, GGUFValueType.FLOAT32)
    stored = [GgufTensor(EMBEDDING, source.embedding.packed, source.embedding.format)]
    if source.head is not source.embedding:
        stored.append(GgufTensor(HEAD, source.head.packed, source.head.format))
    for name, values in model.arrays().items():
        if values.ndim == 1 or "gate_inp" in name:
            stored.append(GgufTensor(name, values))
            continue
        format = formats["experts" if values.ndim == 3 else "attention"]
        rows = quantise(values.reshape(-1, values.shape[-1]), format)
        stored.append(GgufTensor(name, rows.reshape(*values.shape[:-1], -1), format))
    write_gguf(path, metadata, stored)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dense", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rollouts", type=Path, required=True)
    parser.add_argument("--experts", type=int, default=24)
    parser.add_argument("--chosen", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--format", default="q8_0", help="of the experts")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    source = SmallSource(given.dense)
    texts = read_texts(given.rollouts, source)
    click.echo(f"{texts.train.size} tokens, {texts.held_out.size} held out")
    mixture = Mixture(given.experts, given.chosen, source.hyper.ffn // given.experts, float(given.chosen))
    arrays = sparse_arrays(WatchedModel(source), texts, mixture)
    sparse = SparseModel(source.hyper, arrays, source.frequencies)
    sparse.mixture = mixture
    dense = SmallModel(source.hyper, source.arrays, source.frequencies)
    click.echo(f"dense: {quality(dense, dense, texts)}")
    click.echo(f"grouped: {quality(sparse, dense, texts)}")
    distil(sparse, dense, texts, given.minutes)
    click.echo(f"distilled: {quality(sparse, dense, texts)}")
    click.echo(f"named on the input of the layer before: {foreseen(sparse, texts):.1%} of a layer's experts")
    write(given.out, source, sparse, {"experts": given.format, "attention": "q8_0"})


if __name__ == "__main__":
    main()
