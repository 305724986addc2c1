"""Reads what config.json says of sliding windows, as the keys of a GGUF file."""

from __future__ import annotations

from typing import Any

from edgedec.core.errors import UnsupportedError
from edgedec.export.architectures import Architecture
from edgedec.export.fields import Fields


def window_keys(fields: Fields, architecture: Architecture) -> dict[str, Any]:
    """Return the keys of the sliding windows from any of the three generations of fields for them."""
    types = fields.data.get("layer_types") or []
    if not isinstance(types, list) or not set(map(str, types)) <= {"full_attention", "sliding_attention"}:
        raise UnsupportedError(
            "config.json has layers of another kind than full and sliding attention, which are not supported"
        )
    if architecture.windows_everywhere:
        window = fields.data.get("sliding_window")
        return {} if window is None else {"attention.sliding_window": fields.size("sliding_window")}
    if not architecture.global_period:
        if fields.flag("use_sliding_window", False) or "sliding_attention" in types:
            raise UnsupportedError(f"a sliding window in {architecture.name} models is not supported")
        return {}
    size = fields.size("sliding_window")
    if types:
        pattern: Any = [kind == "sliding_attention" for kind in types]
    else:
        pattern = fields.size("sliding_window_pattern", architecture.global_period)
    return {"attention.sliding_window": size, "attention.sliding_window_pattern": pattern}
