"""The memory that a model takes on a GPU, known before any of it is allocated."""

from __future__ import annotations

from collections.abc import Callable

from edgedec.backends.gpu.program import Program
from edgedec.core.errors import MemoryBudgetError, Remedy
from edgedec.core.ledger import Ledger
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size, size_up

Programs = Callable[[int], Program]
"""Returns the program of the first layers of a model, as many as it is asked for."""


def parts_of(program: Program) -> dict[str, int]:
    """Return bytes on the device by purpose."""
    states = program.state_bytes()
    return {
        "weights": program.weight_bytes(),
        "kv_cache": program.cache_bytes(),
        **({"state": states} if states else {}),
        "scratch": program.scratch_bytes(),
    }


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """The memory that ``name`` may take on a device; ``cuts``: numbers of layers that may run there."""

    name: str
    memory: int | None
    cuts: tuple[int, ...]
    programs: Programs

    def ledger(self, layers: int) -> Ledger:
        """Return the ledger for ``layers`` layers. Raises MemoryBudgetError where they do not fit."""
        program = self.programs(layers)
        parts = parts_of(program)
        needed = sum(parts.values())
        if self.memory is None:
            return Ledger()
        if needed <= self.memory:
            return Ledger(parts)
        fewer = [cut for cut in self.cuts if cut < layers and self._needed(cut) <= self.memory]
        split = (Remedy("gpu_layers", fewer[-1]),) if fewer else ()
        raise MemoryBudgetError(
            f"{self.name} takes {size(needed)} of the GPU's memory and may take {size(self.memory)}: "
            f"{size(parts['weights'])} are weights, {size(parts['kv_cache'])} the KV cache of "
            f"{program.capacity} tokens",
            hint=f"allow {size_up(needed)}, or use a smaller context",
            remedy=(Remedy("device_memory", needed), Remedy("shorter_context"), *split),
        )

    def _needed(self, layers: int) -> int:
        return sum(parts_of(self.programs(layers)).values())
