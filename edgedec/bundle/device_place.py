"""Where a model runs, and how much of a device it may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.core.cache_config import Device, KvType
from edgedec.core.progress import Notice, Progress, ignore, silent
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.core.low_rank import AdapterSource


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """The device of one model. ``layers`` are for a GPU."""

    device: Device = "cpu"
    memory: int | None = None
    """Most bytes of the device's memory. None: as many as it has. For the CPU it decides whether experts stay
    on the disk; a memory plan says the rest.
    """
    context: int | None = None
    """Tokens of the KV cache that ``memory`` is to hold. None: as ``CacheConfig.capacity``."""
    kv: KvType = "fp16"
    """Format of that KV cache."""
    layers: int | None = None
    """The number of layers, from the first on, that run there; the CPU runs the others. None: all."""
    notice: Notice = ignore
    """Hears of a device that was lost."""
    progress: Progress = silent
    """Follows how the weights get there."""
    sequences: int = 1
    """Conversations at once, each with a KV cache."""
    beside: int = 0
    """Bytes of weights that drafters have beside the model: with ``memory`` they decide about experts."""
    adapters: tuple[AdapterSource, ...] = ()
    """Changes of the model's matrices, for the CPU."""


ON_CPU = DevicePlace()
