"""Facts about a model that its file need not state, and the preset that its files do state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from edgedec.bundle.preset import OFF, Preset
from edgedec.core.errors import BadFileError, UsageError
from edgedec.core.quick_dataclass import dataclass

_ABSENT_TOP_K = 50
"""Top-k of transformers where generation_config.json has none."""
_RARE = {"typical_p": "typical", "eta_cutoff": "eta", "top_h": "top_h"}
"""Names of transformers for values that few files have."""
_MIROSTAT_2 = 2
"""In GGUF metadata: the version of mirostat that EdgeDec has."""
_DIGITS = 6
"""Significant digits of a float32, in which GGUF files keep numbers: 0.7 instead of 0.699999988."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Where a model comes from, added to the manifest's source, and its preset; None: as its file says."""

    provenance: Mapping[str, str] = field(default_factory=dict)
    preset: Preset | None = None


def gguf_preset(metadata: Mapping[str, Any]) -> Preset:
    """Return the preset in the metadata of a GGUF file, its keys general.sampling; off without them.

    Raises BadFileError for a value that cannot be used.
    """
    keys = {
        "temperature": "temp",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "repetition_penalty": "penalty_repeat",
    }
    if metadata.get("general.sampling.mirostat") == _MIROSTAT_2:
        keys |= {"mirostat": "mirostat_tau", "mirostat_eta": "mirostat_eta"}
    found = {name: metadata.get(f"general.sampling.{key}") for name, key in keys.items()}
    values = {name: _rounded(value) for name, value in found.items() if value is not None}
    return _preset(values, "general.sampling of the GGUF metadata") if values.get("temperature") else OFF


def generation_preset(config: Mapping[str, Any], where: str) -> Preset:
    """Return the preset in generation_config.json, called ``where`` in messages, as transformers reads it.

    A file that names no sampling value, or says ``do_sample: false``, gives greedy decoding. Values that are
    absent are those of transformers: temperature 1, top-k 50.

    Raises BadFileError for a value that cannot be used.
    """
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    theirs = {name: name for name in names} | _RARE
    values = {own: config[name] for name, own in theirs.items() if config.get(name) is not None}
    samples = config.get("do_sample")
    if samples is None:
        samples = any(name in values for name in ("temperature", "top_k", "top_p", "min_p"))
    if not samples:
        values = {name: value for name, value in values.items() if name == "repetition_penalty"}
    else:
        values = {"temperature": 1.0, "top_k": _ABSENT_TOP_K, **values}
        if values["top_k"] == -1:  # some write so that it is off
            values["top_k"] = 0
    return _preset(values, where)


def _preset(values: Mapping[str, Any], where: str) -> Preset:
    try:
        return Preset.from_json(values)
    except TypeError as error:
        raise BadFileError(f"{where} {error}") from error
    except UsageError as error:
        raise BadFileError(f"{where}: {error}") from error


def _rounded(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
