"""Next tokens of a drafter under the noise that the target will use: kernels/core/draft/choices.h."""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Callable, Sequence
from ctypes import PYFUNCTYPE, byref, c_double, c_int32, c_int64, c_void_p

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import HeadRows
from edgedec.core_lib.library import error_of, function
from edgedec.core_lib.params import head_struct, params_struct
from edgedec.sampling import DrawParams

Ids = NDArray[np.int64]
ToTargetIds = Callable[[Ids], Ids]
"""The target's ids i64[n] of the drafter's ids i64[n]; below 0 where the target has no such token."""


class Translation:
    """A ``ToTargetIds`` that the core can call."""

    def __init__(self, to_target: ToTargetIds) -> None:
        self._to_target = to_target
        self._error: BaseException | None = None
        self.function = _TO_TARGET(self._translate)

    def taken(self) -> BaseException | None:
        """Return the error of the latest call, if it failed."""
        error, self._error = self._error, None
        return error

    def _translate(self, ids: int, count: int, theirs: int) -> None:
        if not count:
            return
        found = np.ctypeslib.as_array((c_int32 * count).from_address(theirs))
        try:
            mine = np.ctypeslib.as_array((c_int32 * count).from_address(ids))
            found[:] = self._to_target(mine.astype(np.int64))
        except BaseException as error:
            self._error = error
            found[:] = -1


_TO_TARGET = PYFUNCTYPE(None, c_void_p, c_int64, c_void_p)


class Choices:
    """The choices of a drafter behind ``tokens``, the last ``said`` of which are of the reply.

    ``translation``: between its ids and the target's; None: they are the same.
    """

    def __init__(
        self,
        params: DrawParams,
        tokens: Sequence[int] = (),
        *,
        said: int = 0,
        translation: Translation | None = None,
    ) -> None:
        read = tokens if params.adjusts else ()  # no other settings read them
        self._reads = params.adjusts
        self._handle = function("choices_new")(
            byref(params_struct(params)), array("i", read).tobytes(), len(read), said
        )
        if not self._handle:
            raise error_of(2)
        weakref.finalize(self, function("choices_free"), self._handle)
        self._find = function("choices_find")
        self._translation = translation
        most = function("most_choices")()
        self._tokens, self._probs = (c_int32 * most)(), (c_double * most)()
        self._room = ctypes.addressof(self._tokens), ctypes.addressof(self._probs)

    def commit(self, tokens: Sequence[int]) -> None:
        """Note committed tokens."""
        if self._reads:
            function("choices_commit")(self._handle, array("i", tokens).tobytes(), len(tokens))

    def find(
        self, rows: HeadRows, row: int, position: int, behind: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        """Return a few of the drafter's (id, probability), best first, for ``position`` of the target.

        ``behind``: drafted tokens behind the committed ones. Greedy: the probabilities of the model at
        temperature 1, its confidence. Sampled: with temperature T they are the softmax of logits + T * G, G
        the noise of that position: its confidence in the token that it would draw here. This becomes the
        greedy case as T falls. Raises the errors of ``ToTargetIds``.
        """
        drafted = behind if self._reads else ()
        count = self._find(
            self._handle, byref(head_struct(rows)), row, array("i", drafted).tobytes(), len(drafted),
            position,
            self._translation.function if self._translation else None, *self._room,
        )  # fmt: skip
        if self._translation and (error := self._translation.taken()):
            raise error
        if count < 0:
            raise error_of(-count)
        return list(zip(self._tokens[:count], self._probs[:count], strict=True))
