"""The rules of recurrent states: the tokens that they cover, and how far one can go back.

kernels/core/memory/state_book.h has them.
"""

from __future__ import annotations

from ctypes import Structure, byref, c_int64
from typing import ClassVar

from edgedec.core_lib.library import error_of
from edgedec.core_lib.memory import MEMORY


class StateBook(Structure):
    """The tokens that the states of a sequence cover. ``undone``: most tokens that can be taken back.

    ``applies``: whether there are states beside the trails. ``checkpoint``: tokens that it covers; 0: it is
    the empty state.
    """

    _fields_: ClassVar = [(name, c_int64) for name in ("undone", "applies", "applied", "checkpoint")]
    undone: int
    applied: int
    checkpoint: int

    def __init__(self, undone: int, *, applies: bool = True) -> None:
        super().__init__(undone, applies)

    def check(self, tokens: int, *, chain: bool) -> None:
        """Raise ValueError for a tree of more tokens than can be taken back."""
        if code := MEMORY.states_check(byref(self), tokens, chain):
            raise ValueError(error_of(-code).message)

    def passed(self, start: int, tokens: int, *, chain: bool) -> bool:
        """Record a pass; whether a checkpoint is worth its copy now: a prompt has been read."""
        return bool(MEMORY.states_passed(byref(self), start, tokens, chain))

    def reachable(self, length: int) -> int:
        """Return the tokens that a rewind to ``length`` leaves."""
        return int(MEMORY.states_reachable(byref(self), length))

    def rewind(self, length: int) -> None:
        """Go back to ``length``, which is reachable."""
        MEMORY.states_rewind(byref(self), length)

    def lose(self) -> None:
        """Record that a pass failed midway: only the checkpoint is reachable."""
        MEMORY.states_lose(byref(self))
