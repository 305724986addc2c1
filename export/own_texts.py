"""Text that a target writes itself, and how often a drafter agrees with it, which every installed one has to.

A drafter that reads the wrong states, or was trained for another model, seldom agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.manifest import DRAFTING, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray, Rows, tapped
from edgedec.export.drafters.agreement import TokenAgreement

if TYPE_CHECKING:
    from edgedec.backends.onnx.layer_forward import LayerForward
    from edgedec.loaded_model import LoadedModel

CONTEXT = 256
"""Tokens of prompt and text."""
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


def opened_target(bundle: Path, layers: tuple[int, ...]) -> tuple[LoadedModel, Forward]:
    """Open the model in ``bundle`` with the outputs of ``layers``, and make an empty cache for its texts.

    Raises BackendError, and UnsupportedError for a model that does not hand them out.
    """
    from edgedec.loaded_model import load_model

    model = load_model(bundle, drafting=layers)
    if missing := [str(layer) for layer in layers if layer not in model.backend.caps.taps]:
        raise UnsupportedError(f"{model.name} does not hand out the outputs of layers {', '.join(missing)}")
    return model, model.backend.forward(CacheConfig(min(CONTEXT, model.spec.context_length)))


def manifest_of_target(bundle: Path, what: str) -> Manifest:
    """Return the manifest of ``bundle``, whose hidden states the drafter ``what`` reads.

    Raises UnsupportedError where it hands out none.
    """
    manifest = Manifest.load(bundle)
    if DRAFTING not in manifest.files:
        raise UnsupportedError(
            f"{manifest.name} hands out no hidden states, which {what} reads",
            hint="pull or export the model again",
        )
    return manifest


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


def layer_agreement(
    layers: Sequence[LayerForward], texts: Sequence[OwnText], taps: Sequence[int]
) -> TokenAgreement:
    """Return how often a layer that reads ``taps`` agrees; ``layers``: an empty cache for each text."""
    hits = [_hits(layer, text, taps) for layer, text in zip(layers, texts, strict=True)]
    return TokenAgreement(sum(int(one.sum()) for one in hits), sum(one.size for one in hits))


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


def _hits(forward: LayerForward, text: OwnText, taps: Sequence[int]) -> NDArray[np.bool_]:
    """Return for each token that the target wrote but the first whether the layer predicts it."""
    hidden = tapped(text.hidden, text.layers, tuple(taps))
    count = len(text.tokens) - 2
    hits = []
    for start in range(0, count, forward.caps.max_pass):
        end = min(start + forward.caps.max_pass, count)
        following = list(text.tokens[start + 1 : end + 1])
        found = forward.step(following, taps=hidden[start:end], rows=range(end - start))
        hits.append(found.rows.ids[:, 0] == np.array(text.tokens[start + 2 : end + 2]))
    return np.concatenate(hits)[max(text.prompt - 1, 0) :]
