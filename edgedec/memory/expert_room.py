"""Whether a model's experts are in memory or on the disk: kernels/core/memory/expert_room.h."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from edgedec.core.experts import Experts
from edgedec.core_lib.memory import MEMORY, packed


class ExpertRoom(NamedTuple):
    """Room for experts that are read from the disk.

    ``direct``: reads go past the system's cache, which has no room for the file. ``slots`` of them, until a
    memory plan says how many, and at most ``most``.
    """

    direct: bool
    slots: int
    most: int


def expert_room(
    experts: Experts, weights: int, budget: int | None, left: int | None, beside: int
) -> ExpertRoom | None:
    """Return the room for experts in a file of ``weights`` bytes; None where all fit into memory.

    ``budget``: bytes that the process may take; ``left``: those that the machine has left; ``beside``: those
    of either that weights of drafters need.
    """
    sizes = experts.layers, experts.count, experts.chosen, experts.slot_bytes, experts.nbytes
    memory = (-1 if one is None else one for one in (budget, left))
    room = (ctypes.c_int64 * 2)()
    where = MEMORY.expert_room(packed(sizes), weights, packed([*memory, beside]), room)
    return ExpertRoom(where > 1, *room) if where else None
