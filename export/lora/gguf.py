"""Reads an adapter from a GGUF file, which names tensors as a GGUF model does."""

from __future__ import annotations

import re
from pathlib import Path

from edgedec.core.errors import UnsupportedError
from edgedec.core.low_rank import LowRank
from edgedec.export.gguf_source import open_gguf
from edgedec.export.lora.pairs import Pairs, change_of, more_than_low_rank, nothing_in, number, rank_of

_NAME = re.compile(r"(.+\.weight)\.lora_([ab])")


def read_gguf(path: Path, architecture: str, scale: float) -> dict[str, LowRank]:
    """Return the changes by the name of a matrix; ``scale`` comes on top of the file's alpha / rank.

    Raises BadFileError, and UnsupportedError for a file that is no LoRA adapter or one of another
    architecture.
    """
    with open_gguf(path) as gguf:
        stated = gguf.metadata
        if stated.get("general.type") != "adapter" or stated.get("adapter.type") != "lora":
            raise UnsupportedError(f"{path} is no adapter", hint="name the file of a LoRA adapter")
        if "adapter.alora.invocation_tokens" in stated:
            raise UnsupportedError(f"{path} waits for its own tokens (aLoRA), which cannot be applied here")
        if (made_for := stated.get("general.architecture")) != architecture:
            raise UnsupportedError(
                f"{path} was made for a model of the kind {made_for!s:.40}, and this is {architecture}",
                hint="use an adapter of this model",
            )
        alpha = number(path, stated, "adapter.lora.alpha", 0.0)
        pairs: Pairs = {}
        for name, tensor in gguf.tensors.items():
            found = _NAME.fullmatch(name)
            if not found or len(tensor.shape) != 2:
                raise more_than_low_rank(path, name)
            pairs.setdefault(found[1], {})[found[2]] = gguf.vector(tensor).reshape(tensor.shape)
    if not pairs:
        raise nothing_in(path)
    ranks = {name: rank_of(path, name, pair) for name, pair in pairs.items()}
    own = {name: alpha / rank if alpha else 1.0 for name, rank in ranks.items()}
    return {name: change_of(path, name, pair, scale * own[name]) for name, pair in pairs.items()}
