"""The KV cache that a caller asks of a backend, the device, and what happens when the context is full."""

from __future__ import annotations

from typing import Literal

from edgedec.core.quick_dataclass import dataclass

KvType = Literal["fp16", "int8"]
"""Number format of keys and values: fp16, or int8 with fp16 scales of 32 numbers of a key, 64 of a value."""

KvChoice = Literal["auto", KvType]
"""A number format, or "auto" for the one that pays here."""

KV_FORMATS: dict[KvType, str] = {"fp16": "fp16", "int8": "int8.2"}
"""Their names in files. int8 has a number: its rows had another meaning before, and those are not read."""

Device = Literal["cpu", "npu", "gpu"]
"""Where a model runs: on the CPU, on an NPU for which it was exported, or on a GPU."""

MOST_SEQUENCES = 32
"""Sequences of one KV cache. Beyond them passes cost as much per token as prompts do."""

WhenFull = Literal["drop", "stop", "slide", "speckv"]
DROP: WhenFull = "drop"
"""The oldest turns leave the conversation; those that stay are fed again."""
STOP: WhenFull = "stop"
"""The reply ends, or the turn is refused."""
SLIDE: WhenFull = "slide"
"""Lossy: the oldest tokens leave the KV cache, see ``eviction.sliding``."""
SPECKV: WhenFull = "speckv"
"""Lossy: the tokens that are attended to least leave the KV cache, see ``eviction.speckv``."""
LOSSY: tuple[WhenFull, ...] = (SLIDE, SPECKV)
WHEN_FULL: tuple[WhenFull, ...] = (DROP, STOP, *LOSSY)


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """One KV cache. None leaves a value to the backend."""

    capacity: int | None = None
    """Tokens. None: the context that the model was made for, at most 4096."""
    kv: KvType | None = None
    """Number format. None: the first of ``Capabilities.kv_kinds``, or the runtime's own."""
    max_pass: int | None = None
    """Most tokens of one pass. None: as many as the backend can run."""
