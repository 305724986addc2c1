"""Sizes and plans of kernels/core/memory, called with models and facts as whole numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from struct import pack

from edgedec.core.cache_config import KvType
from edgedec.core.cache_kinds import States
from edgedec.core.model_spec import ModelSpec
from edgedec.core_lib.binding import Functions

_NUMBERS, _INT, _FLAG, _TEXT = ctypes.c_char_p, ctypes.c_int64, ctypes.c_int, ctypes.c_char_p
REST = ctypes.PYFUNCTYPE(_INT, _INT, ctypes.POINTER(_INT))
"""The memory of a drafter beside its weights, by its number and the seven numbers of a choice."""
_FACTS = (_NUMBERS, _TEXT, REST, _NUMBERS)
MEMORY = Functions(
    "edgedec_memory_",
    ring_sizes=(None, ctypes.POINTER(_INT)),
    row_bytes=(_INT, _INT, _FLAG),
    ring_slots=(_INT, _NUMBERS, _INT, _INT, _FLAG),
    kv_bytes=(_INT, _NUMBERS, _INT, _FLAG, _INT),
    state_bytes=(_INT, _NUMBERS),
    states_check=(_FLAG, ctypes.c_void_p, _INT, _FLAG),
    states_passed=(_FLAG, ctypes.c_void_p, _INT, _INT, _FLAG),
    states_reachable=(_INT, ctypes.c_void_p, _INT),
    states_rewind=(None, ctypes.c_void_p, _INT),
    states_lose=(None, ctypes.c_void_p),
    cache_bytes=(_INT, _NUMBERS, _INT, _FLAG, _INT, _INT),
    scratch_bytes=(_INT, _NUMBERS, _INT, _INT, _INT, _INT),
    choice_bytes=(_INT, _NUMBERS, _INT),
    expert_room=(_FLAG, _NUMBERS, _INT, _NUMBERS, ctypes.POINTER(_INT)),
    longest_pass=(_INT, _NUMBERS, _INT),
    draft_model_bytes=(_INT, _NUMBERS, _NUMBERS, _INT, _INT),
    footprint=(_TEXT, *_FACTS),
    planned=(_TEXT, *_FACTS, _INT, _FLAG),
    drawing=(_TEXT, *_FACTS, _INT, _INT, _INT, _INT),
    least=(_INT, *_FACTS, _INT),
    milestones=(_TEXT, *_FACTS),
)


def packed(numbers: Sequence[int]) -> bytes:
    """Return whole numbers as the core takes them."""
    return pack(f"{len(numbers)}q", *numbers)


def int8(kv: KvType) -> bool:
    """Whether a cache is kept in int8."""
    return kv == "int8"


def states_numbers(kinds: Sequence[States]) -> tuple[int, ...]:
    """Return the sizes of recurrent states."""
    sizes = ((kind.layers, kind.trail, kind.tail, kind.state) for kind in kinds)
    return len(kinds), *(number for one in sizes for number in one)


def spec_numbers(spec: ModelSpec, rings: tuple[int, int]) -> tuple[int, ...]:
    """Return the sizes of a model that decide its memory. ``rings``: slack and page of rings."""
    experts, keys = spec.experts, spec.keys
    sizes = ((one.layers, one.kv_heads, one.head_dim, one.window) for one in keys)
    return (
        spec.vocab_size, spec.n_heads, spec.n_kv_heads, spec.head_dim, spec.hidden_size, spec.context_length,
        spec.ffn_size, *rings, *((experts.count, experts.chosen, experts.width) if experts else (0, 0, 0)),
        len(keys), *(number for one in sizes for number in one),
        *states_numbers(spec.states),
    )  # fmt: skip
