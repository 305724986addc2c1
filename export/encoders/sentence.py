"""Facts of a directory of sentence-transformers beside its weights: pooling, prompts, the longest text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgedec.bundle.embedding_facts import Pooling
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.fields import is_size
from edgedec.export.huggingface.files import read_bytes, read_object, read_text

MODULES = "modules.json"
_PROMPTS = "config_sentence_transformers.json"
_LENGTH = "sentence_bert_config.json"
SENTENCE_TEXTS = (MODULES, _PROMPTS, _LENGTH, "1_Pooling/config.json")
"""Files that an export reads."""
_MOST_NAME = 100
_POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}


@dataclass(frozen=True, slots=True)
class SentenceFacts:
    """The modules behind the transformer, and texts in front of others.

    ``longest``: tokens of the longest text; 0 where nothing states them. ``dense``: folders of linears.
    """

    pooling: Pooling = "cls"
    normalised: bool = False
    dense: tuple[str, ...] = ()
    longest: int = 0
    prompts: dict[str, str] | None = None
    default: str = ""
    stated: bool = False
    """Whether the directory has the file with its modules."""


def read_sentence_facts(directory: Path) -> SentenceFacts:
    """Read the files. Raises BadFileError, and UnsupportedError for a module that is not known.

    A directory without ``modules.json`` gets the mean of all tokens at length 1, as sentence-transformers
    makes it of a plain model.
    """
    modules, longest = _modules(directory), read_object(directory / _LENGTH).get("max_seq_length")
    if modules is None:
        return SentenceFacts("mean", normalised=True)
    pooling: Pooling | None = None
    normalised, dense = False, []
    for module in modules:
        kind, place = str(module.get("type", "")).rpartition(".")[2], str(module.get("path", ""))
        if kind == "Pooling":
            pooling = _pooling(read_object(_inside(directory, place) / "config.json", required=True))
        elif kind == "Dense":
            dense.append(place)
        elif kind == "Normalize":
            normalised = True
        elif kind != "Transformer":
            raise UnsupportedError(f"the model has a module {kind[:40]!r}, which is not supported")
    if pooling is None:
        raise UnsupportedError(f"{MODULES} has no pooling: the model makes no vector of a text")
    prompts, default = _prompts(directory)
    length = longest if is_size(longest) and isinstance(longest, int) else 0
    return SentenceFacts(pooling, normalised, tuple(dense), length, prompts, default, stated=True)


def _modules(directory: Path) -> list[dict[str, Any]] | None:
    import json

    if read_bytes(directory / MODULES) is None:
        return None
    try:
        found = json.loads(read_text(directory / MODULES) or "")
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{MODULES} is not JSON", hint="download the model again") from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadFileError(f"{MODULES} is not a list of modules", hint="download the model again")
    return found


def _inside(directory: Path, place: str) -> Path:
    if Path(place).name != place or not place.isprintable() or len(place) > _MOST_NAME:
        raise BadFileError(f"{MODULES} names {place[:80]!a}, which is no folder of the model's directory")
    return directory / place


def _pooling(config: dict[str, Any]) -> Pooling:
    named = config.get("pooling_mode")
    on = [mode for key, mode in _POOLING.items() if config.get(key)] or [str(named)]
    others = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    found: list[Pooling] = [one for one in ("mean", "cls", "last") if one in on or named == f"{one}token"]
    if len(found) != 1 or len(others) > 1:
        raise UnsupportedError("the model pools its tokens in a way that is not supported")
    if config.get("include_prompt") is False:
        raise UnsupportedError("the model leaves prompts out of its pooling, which is not supported")
    return found[0]


def _prompts(directory: Path) -> tuple[dict[str, str], str]:
    stated = read_object(directory / _PROMPTS)
    prompts = stated.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise BadFileError(f"prompts in {_PROMPTS} is no object", hint="download the model again")
    found = {str(key): text for key, text in prompts.items() if isinstance(text, str)}
    default = stated.get("default_prompt_name")
    return found, default if isinstance(default, str) and default in found else ""
