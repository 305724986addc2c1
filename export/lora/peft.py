"""Reads an adapter from a directory that PEFT saved, which names modules as the model's own code does."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.core.low_rank import F32, LowRank
from edgedec.export.bundle import printable_name
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.shards import read_shards
from edgedec.export.lora.pairs import (
    AGAIN,
    Pairs,
    change_of,
    more_than_low_rank,
    nothing_in,
    number,
    rank_of,
    split_scale,
)

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_NAME = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])\.weight")
_MORE = {
    "use_dora": "scales whole matrices (DoRA)",
    "lora_bias": "has biases",
    "modules_to_save": "replaces whole layers",
    "trainable_token_indices": "changes embeddings of tokens",
    "fan_in_fan_out": "has transposed matrices",
    "alora_invocation_tokens": "waits for its own tokens (aLoRA)",
}
"""Settings of adapters that are more than a product of two matrices."""
_MOVED_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Begins of ``init_lora_weights`` of adapters whose base is not the model as it was published."""


def folder_of(path: Path) -> Path | None:
    """Return the directory that ``path`` or a file in it is; None for another file."""
    folder = path.parent if path.name in (CONFIG, WEIGHTS) else path
    return folder if folder.is_dir() else None


def read_peft(folder: Path, scale: float) -> dict[str, LowRank]:
    """Return the changes by the name of a module; ``scale`` comes on top of the directory's own.

    That is ``alpha / rank``, or ``alpha / sqrt(rank)`` with ``use_rslora``. Raises NotFoundError,
    BadFileError, and UnsupportedError for an adapter with more than low-rank changes.
    """
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise NotFoundError(f"{folder} has no {name}", hint="name a directory that PEFT saved")
    config = read_object(folder / CONFIG)
    _check(folder, config)
    pairs: Pairs = {}
    for name, tensor in read_shards([folder / WEIGHTS]).items():
        found = _NAME.fullmatch(name)
        if not found or len(tensor.shape) != 2:
            raise more_than_low_rank(folder, name)
        pairs.setdefault(found[1], {})[found[2].lower()] = tensor.read(0, tensor.shape[0])
    if not pairs:
        raise nothing_in(folder)
    own = {module: _scale(folder, config, module, pair) for module, pair in pairs.items()}
    return {module: change_of(folder, module, pair, scale * own[module]) for module, pair in pairs.items()}


def read_folders(named: Sequence[str]) -> dict[str, dict[str, LowRank]]:
    """Return the changes of each ``FOLDER`` or ``FOLDER:SCALE``, by the name of the folder.

    Raises NotFoundError for another file, and the errors of ``read_peft``.
    """
    found: dict[str, dict[str, LowRank]] = {}
    for one in named:
        path, scale = split_scale(one)
        folder = folder_of(path)
        if folder is None:
            raise NotFoundError(f"{path} is no directory of an adapter", hint="name one that PEFT saved")
        found[f"{printable_name(folder.resolve().name)}:{scale:g}"] = read_peft(folder, scale)
    return found


def _check(folder: Path, config: Mapping[str, Any]) -> None:
    kind = config.get("peft_type")
    if kind != "LORA":
        raise UnsupportedError(f"{folder} holds an adapter of the kind {kind!s:.40}", hint="use one of LORA")
    for setting, meaning in _MORE.items():
        if config.get(setting):
            raise UnsupportedError(
                f"the adapter in {folder} {meaning}: {setting} is set in {CONFIG}",
                hint="use an adapter of linear layers alone",
            )
    if config.get("bias", "none") != "none":
        raise UnsupportedError(f"the adapter in {folder} changes biases", hint="use one with bias none")
    if str(config.get("init_lora_weights", "")).lower().startswith(_MOVED_BASE):
        raise UnsupportedError(
            f"the adapter in {folder} belongs to a base model that its training changed",
            hint="let PEFT convert it to an ordinary LoRA when it is saved",
        )


def _scale(folder: Path, config: Mapping[str, Any], module: str, pair: Mapping[str, F32]) -> float:
    alphas = config.get("alpha_pattern") or {}
    if not isinstance(alphas, dict):
        raise BadFileError(f"alpha_pattern in {folder / CONFIG} is no table", hint=AGAIN)
    named = next((key for key in alphas if _matches(str(key), module)), None)
    stated = config if named is None else {"lora_alpha": alphas[named]}
    alpha, rank = number(folder, stated, "lora_alpha", 8.0), rank_of(folder, module, pair)
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _matches(pattern: str, module: str) -> bool:
    """Return whether a key of ``alpha_pattern`` is for a module: the end of its name, or a pattern of it."""
    try:
        return re.fullmatch(rf"(.*\.)?({pattern})", module) is not None
    except re.error:
        return False
