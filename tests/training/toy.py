"""A made-up target for training: the next token follows from the hidden states of the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgedec.export.draft_head.weights import Floats, HeadWeights
from edgedec.training.batch import KeptIds
from edgedec.training.data import TrainingData
from edgedec.training.features import BEST, Features

D, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 32, 4, 2, 16, 64, 40
KEEP = np.arange(0, VOCAB, dtype=np.int64)[np.arange(VOCAB) % 8 != 7]
SHAPES = {
    "fc": (D, 3 * D),
    "norm_embed": (D,),
    "norm_state": (D,),
    "attn_q": (HEADS * HEAD_DIM, 2 * D),
    "attn_k": (KV_HEADS * HEAD_DIM, 2 * D),
    "attn_v": (KV_HEADS * HEAD_DIM, 2 * D),
    "attn_output": (D, HEADS * HEAD_DIM),
    "ffn_norm": (D,),
    "ffn_gate": (FFN, D),
    "ffn_up": (FFN, D),
    "ffn_down": (D, FFN),
    "output_norm": (D,),
}


def random_head(seed: int = 0, *, own: bool = False) -> HeadWeights:
    draw = np.random.default_rng(seed)

    def values(*shape: int) -> Floats:
        scale = shape[-1] ** -0.5 if len(shape) > 1 else 0.1
        found = draw.standard_normal(shape) * scale + (len(shape) == 1)
        return found.astype(np.float32)

    arrays = {name: values(*shape) for name, shape in SHAPES.items()}
    head = values(len(KEEP), D) if own else None
    return HeadWeights(
        D, HEADS, KV_HEADS, HEAD_DIM, FFN, rope_base=1e4, epsilon=1e-5, keep=KEEP, head=head, **arrays
    )


@dataclass(frozen=True)
class ToyTable:
    values: Floats

    def gather(self, ids: np.ndarray) -> Floats:
        return self.values[ids]


class ToyTexts:
    """Features of texts in which token t + 1 is a function of token t, 7 of 8 times."""

    def __init__(self, count: int, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        self._table = np.random.default_rng(99).standard_normal((VOCAB, 3 * D)).astype(np.float32)
        self.texts = [self._text(draw, int(draw.integers(12, 40))) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Features:
        return self.texts[index]

    @property
    def lengths(self) -> list[int]:
        return [len(text.tokens) for text in self.texts]

    def _text(self, draw: np.random.Generator, length: int) -> Features:
        tokens = [int(draw.integers(VOCAB))]
        while len(tokens) < length:
            chance = int(draw.integers(VOCAB)) if draw.random() < 1 / 8 else (5 * tokens[-1] + 3) % VOCAB
            tokens.append(chance)
        first = 3
        ids = np.array([_best(token, after) for token, after in zip(tokens, [*tokens[1:], 0], strict=True)])
        logp = np.log(np.tile([0.9, *[0.1 / (BEST - 1)] * (BEST - 1)], (length, 1)))
        hidden = self._table[tokens]
        return Features(
            np.array(tokens, dtype=np.int32),
            hidden.astype(np.float16),
            ids[first:].astype(np.int32),
            logp[first:].astype(np.float16),
        )


def _best(token: int, after: int) -> list[int]:
    others = [other % VOCAB for other in range(token, token + BEST) if other % VOCAB != after]
    return [after, *others[: BEST - 1]]


def toy_data(train: int = 60, held_out: int = 6) -> TrainingData:
    draw = np.random.default_rng(5)
    texts = ToyTexts(train)
    return TrainingData(
        train=texts,
        lengths=texts.lengths,
        held_out=ToyTexts(held_out, seed=1),
        vocabulary=KeptIds(KEEP, VOCAB),
        embedding=ToyTable(draw.standard_normal((VOCAB, D)).astype(np.float32)).gather,
        rows=draw.standard_normal((len(KEEP), D)).astype(np.float32) / D**0.5,
    )


def same(one: HeadWeights, other: HeadWeights, names: Sequence[str] = tuple(SHAPES)) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
