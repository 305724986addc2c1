"""The choice between a KV cache in fp16 and one in int8, where nobody named one."""

from __future__ import annotations

from collections.abc import Callable

from edgedec.core.cache_config import Device, KvType
from edgedec.core.cache_kinds import Keys
from edgedec.loaded_model import LoadedModel
from edgedec.metrics.stats import Clock

Speed = Callable[[Keys, int, KvType, int, Clock], float]

LONG_CONTEXT = 8192
"""Tokens of context from which on int8 is worth replies that are not exactly those of fp16."""
VERIFIED = 8
"""Tokens of the pass whose attention is compared: one that verifies drafts."""
_LEAST_GAIN = 0.9
"""Part of the time of fp16 that int8 may take."""


def chosen_kv(
    model: LoadedModel, device: Device, context: int, clock: Clock, speed: Speed
) -> tuple[KvType, str]:
    """Return the format of the cache for ``context`` tokens of ``model``, and a line with the reason.

    ``speed``: see ``attention_seconds``.
    """
    if "int8" not in model.backend.caps.kv_kinds:
        return "fp16", "kv auto: fp16, since this model has no cache in int8 here"
    if context < LONG_CONTEXT:
        return "fp16", f"kv auto: fp16, since the context of {context} tokens is shorter than {LONG_CONTEXT}"
    if device != "cpu":
        return "fp16", "kv auto: fp16, since attention in int8 is compared on the CPU alone"
    keys, heads = max(model.spec.keys, key=lambda one: one.layers), model.spec.n_heads
    exact, short = (speed(keys, heads, kv, VERIFIED, clock) for kv in ("fp16", "int8"))
    part = f"{short / exact:.2f} of the time of fp16"
    if short > _LEAST_GAIN * exact:
        return "fp16", f"kv auto: fp16, since attention in int8 takes {part} here"
    return "int8", f"kv auto: int8, whose attention takes {part} here; replies are not exactly those of fp16"
