"""Measures how often a head agrees with its target, on text that the target writes itself.

A head that reads the wrong layers, or was trained for another model, seldom agrees. Layers are counted in two
ways that differ by one, so the neighbours of the layers are measured too, in the same passes of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.onnx.head_forward import HeadModel
from edgedec.backends.onnx.mtp_forward import MtpModel
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Forward
from edgedec.core.progress import Progress, silent
from edgedec.core.rows import FloatArray, Rows, tapped
from edgedec.loaded_model import LoadedModel

CONTEXT = 256
"""Tokens of prompt and text."""
LEAST = 0.2
"""A head that agrees with fewer of the tokens is refused: its drafts could hardly pay."""
_MARGIN = 0.05
"""Other layers are taken for the right ones if the head agrees with so many tokens more."""
_TOKENS = 64
"""Tokens that the target writes for each prompt."""
_FEWEST = 16
"""It ends a text only after so many."""
PROMPTS = (
    "Explain in a few sentences why the sky is blue.",
    "Write a Python function that reverses the words of a sentence, and explain it.",
    "A train leaves at 9:40 and arrives at 13:05. How long does it take? Show the steps.",
    "Write the first lines of a story about a lighthouse keeper.",
)


@dataclass(frozen=True, slots=True)
class OwnText:
    """A prompt and what the target wrote behind it, with the outputs of ``layers`` side by side."""

    tokens: tuple[int, ...]
    prompt: int
    """Tokens of the prompt."""
    layers: tuple[int, ...]
    hidden: FloatArray
    """f32[tokens - 1, layers * hidden size]; the last token was not fed."""


@dataclass(frozen=True, slots=True)
class HeadAgreement:
    """The share of ``tokens`` of the target that a head predicts, as it reads ``taps``, and around them."""

    taps: tuple[int, ...]
    tokens: int
    rate: float
    others: tuple[tuple[tuple[int, ...], float], ...] = ()
    """The same for other layers."""

    def check(self, name: str) -> None:
        """Raise BadFileError for a head that agrees too seldom, or more often with other layers."""
        best, other = max(((rate, taps) for taps, rate in self.others), default=(0.0, ()))
        if self.rate >= max(LEAST, best - _MARGIN):
            return
        found = f"the head agrees with {self.rate:.0%} of {self.tokens} tokens that {name} wrote"
        beside = ""
        if best > self.rate + _MARGIN:
            beside = f", and with {best:.0%} reading layers {_list(other)}"
        raise BadFileError(
            f"{found}, reading the outputs of layers {_list(self.taps)}{beside}",
            hint="it was made for another model, or its config.json does not name the layers that it reads "
            "(eagle_aux_hidden_state_layer_ids)",
        )


def layers_to_measure(taps: Sequence[int], layers: int) -> tuple[tuple[int, ...], ...]:
    """Return ``taps`` and, behind them, the layers one below and one above, where the target has them."""
    around = (tuple(tap + step for tap in taps) for step in (0, -1, 1))
    return tuple(one for one in around if min(one) >= 0 and max(one) < layers)


def own_texts(
    model: LoadedModel, forward: Forward, layers: tuple[int, ...], progress: Progress = silent
) -> list[OwnText]:
    """Let the target answer ``PROMPTS``, each with its most probable tokens; ``forward`` is emptied."""
    found = []
    for number, prompt in enumerate(PROMPTS):
        progress("agreement", number, len(PROMPTS))
        forward.rewind(0)
        found.append(_written(forward, _prompt(model, prompt), layers, model.manifest.tokenizer.eos_ids))
    progress("agreement", len(PROMPTS), len(PROMPTS))
    return found


def agreement(
    head: HeadModel | MtpModel, texts: Sequence[OwnText], readings: Sequence[tuple[int, ...]]
) -> HeadAgreement:
    """Return how often ``head`` agrees as it reads the first of ``readings``, and as it reads the others."""
    rates = []
    for taps in readings:
        hits = [_hits(head, text, taps) for text in texts]
        rates.append((sum(int(one.sum()) for one in hits), sum(one.size for one in hits)))
    shares = [hit / max(count, 1) for hit, count in rates]
    others = tuple(zip(readings[1:], shares[1:], strict=True))
    return HeadAgreement(readings[0], rates[0][1], shares[0], others)


def _prompt(model: LoadedModel, prompt: str) -> list[int]:
    if model.template is None:
        return model.tokenizer.encode(prompt)[: CONTEXT - _TOKENS]
    asked = [{"role": "user", "content": prompt}]
    return model.tokenizer.encode_chat(model.template, asked)[: CONTEXT - _TOKENS]


def _written(forward: Forward, prompt: list[int], layers: tuple[int, ...], stops: Sequence[int]) -> OwnText:
    tokens, parts, fed = list(prompt), [], prompt
    rows = Rows(last=True, taps=layers)
    while True:
        found = forward.extend(fed, rows=rows)
        assert found.hidden is not None, "the target was opened with these layers"
        parts.append(found.hidden)
        tokens.append(int(found.ids[-1, 0]))
        said, fed = len(tokens) - len(prompt), tokens[-1:]
        if said == _TOKENS or (tokens[-1] in stops and said >= _FEWEST):
            return OwnText(tuple(tokens), len(prompt), layers, np.concatenate(parts))


def _hits(head: HeadModel | MtpModel, text: OwnText, taps: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return for each token that the target wrote but the first whether the head predicts it."""
    forward, hidden = head.forward(CONTEXT), tapped(text.hidden, text.layers, taps)
    count = len(text.tokens) - 2
    hits = []
    for start in range(0, count, forward.caps.max_pass):
        end = min(start + forward.caps.max_pass, count)
        following = list(text.tokens[start + 1 : end + 1])
        found = forward.step(following, taps=hidden[start:end], rows=range(end - start))
        hits.append(found.rows.ids[:, 0] == np.array(text.tokens[start + 2 : end + 2]))
    return np.concatenate(hits)[max(text.prompt - 1, 0) :]


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
