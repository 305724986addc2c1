"""Models in Ollama's form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from edgedec.server.work.facts import ModelFacts
from edgedec.server.work.request import ModelStatus

VERSION = "0.12.6"
"""The version of Ollama whose answers these are like: clients ask for a least one."""
_FOREVER = "9999-12-31T23:59:59Z"
"""A model is closed when another needs its room, at no time that is known."""
_NAMES = {"repetition_penalty": "repeat_penalty", "typical": "typical_p"}
_SIZES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))


def listed(facts: ModelFacts) -> dict[str, Any]:
    """Return a model as an entry of the list of those that are installed."""
    return {**_named(facts), "modified_at": _time(facts.modified_s), "size": facts.bytes}


def running(facts: ModelFacts, status: ModelStatus) -> dict[str, Any]:
    """Return a model as an entry of the list of those that are open."""
    own = {"size": sum(status.ledger.values()), "size_vram": 0, "expires_at": _FOREVER}
    return {**_named(facts), **own, "context_length": status.context}


def shown(facts: ModelFacts) -> dict[str, Any]:
    """Return all about a model."""
    manifest = facts.manifest
    source = manifest.source if manifest else {}
    licence = " ".join(str(source[name]) for name in ("licence", "licence_url") if name in source)
    return {
        "modelfile": f"FROM {facts.name}\n",
        "parameters": _parameters(facts),
        "template": facts.template,
        "license": licence,
        "details": _details(facts),
        "model_info": _info(facts),
        "capabilities": facts.can,
        "modified_at": _time(facts.modified_s),
    }


def _named(facts: ModelFacts) -> dict[str, Any]:
    source = facts.manifest.source if facts.manifest else {}
    return {
        "name": facts.name,
        "model": facts.name,
        "digest": str(source.get("sha256", "")),
        "details": _details(facts),
    }


def _details(facts: ModelFacts) -> dict[str, Any]:
    family = facts.manifest.spec.architecture if facts.manifest else ""
    return {
        "parent_model": "",
        "format": "edgedec",
        "family": family,
        "families": [family] if family else [],
        "parameter_size": _size(facts.parameters),
        "quantization_level": facts.quant or "",
    }


def _info(facts: ModelFacts) -> dict[str, Any]:
    if facts.manifest is None:
        return {}
    spec = facts.manifest.spec
    count = {} if facts.parameters is None else {"general.parameter_count": facts.parameters}
    lengths = {
        "context_length": spec.context_length,
        "embedding_length": spec.hidden_size,
        "block_count": spec.n_layers,
        "attention.head_count": spec.n_heads,
        "attention.head_count_kv": spec.n_kv_heads,
        "feed_forward_length": spec.ffn_size,
    }
    own = {f"{spec.architecture}.{name}": value for name, value in lengths.items()}
    return {"general.architecture": spec.architecture, "general.basename": facts.name, **count, **own}


def _parameters(facts: ModelFacts) -> str:
    """Return the preset as lines of a file of Ollama's."""
    if facts.manifest is None:
        return ""
    preset = facts.manifest.preset.as_json()
    lines = [
        f"{_NAMES.get(name, name)} {value}"
        for name, value in preset.items()
        if name not in ("system", "stops")
    ]
    return "\n".join([*lines, *(f'stop "{stop}"' for stop in facts.manifest.preset.stops)])


def _size(parameters: int | None) -> str:
    if parameters is None:
        return ""
    unit, letter = next(((unit, letter) for unit, letter in _SIZES if parameters >= unit), (1, ""))
    return f"{parameters / unit:.1f}{letter}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
