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


def parts_of(program: Program, sequences: int = 1) -> dict[str, int]:
    """Return bytes on the device by purpose, for so many conversations at once."""
    states = program.state_bytes()
    return {
        "weights": program.weight_bytes(),
        "kv_cache": sequences * program.cache_bytes(),
        **({"state": sequences * states} if states else {}),
        "scratch": sequences * program.scratch_bytes(),
    }


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """The memory that ``name`` may take on a device; ``cuts``: numbers of layers that may run there.

    ``sequences``: conversations at once.
    """

    name: str
    memory: int | None
    cuts: tuple[int, ...]
    programs: Programs
    sequences: int = 1

    def ledger(self, layers: int) -> Ledger:
        """Return the ledger for ``layers`` layers. Raises MemoryBudgetError where they do not fit."""
        program = self.programs(layers)
        parts = parts_of(program, self.sequences)
        needed = sum(parts.values())
        if self.memory is None:
            return Ledger()
        if needed <= self.memory:
            return Ledger(parts)
        fewer = [cut for cut in self.cuts if cut < layers and self._needed(cut) <= self.memory]
        split = (Remedy("gpu_layers", fewer[-1]),) if fewer else ()
        at_once = self.sequences > 1
        several = f" for each of {self.sequences} conversations" if at_once else ""
        fewer_at_once = " or fewer conversations at once" if at_once else ""
        raise MemoryBudgetError(
            f"{self.name} takes {size(needed)} of the GPU's memory and may take {size(self.memory)}: "
            f"{size(parts['weights'])} are weights, {size(parts['kv_cache'])} the KV cache of "
            f"{program.capacity} tokens{several}",
            hint=f"allow {size_up(needed)}, or use a smaller context{fewer_at_once}",
            remedy=(Remedy("device_memory", needed), Remedy("shorter_context"), *split),
        )

    def _needed(self, layers: int) -> int:
        return sum(parts_of(self.programs(layers), self.sequences).values())
