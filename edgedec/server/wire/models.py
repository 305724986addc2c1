"""Models in OpenAI's form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgedec.server.work.request import ModelInfo


def model_json(model: ModelInfo) -> dict[str, Any]:
    """Return a model as JSON fields."""
    own = {
        "loaded": model.loaded,
        "context": model.context,
        "preset": model.preset.as_json() if model.preset else {},
        "chat": model.has_template,
    }
    if model.dimensions:
        own["dimensions"] = model.dimensions
    return {
        "id": model.name, "object": "model", "created": model.created, "owned_by": "edgedec", "edgedec": own,
    }  # fmt: skip


def models_json(models: Iterable[ModelInfo]) -> dict[str, Any]:
    """Return a list of models as JSON fields."""
    return {"object": "list", "data": [model_json(one) for one in models]}
