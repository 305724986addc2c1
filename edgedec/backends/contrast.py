"""A forward whose logits weigh a text: two sequences of one cache, with the text and without it.

Context-aware decoding (Shi et al. 2024). Both sequences end with the same tokens, and passes over these read
the weights once for both. Callers see the tokens of the sequence with the text alone, and logits made of both
(``kernels/head_topk/contrast.h``), so that drafts are verified against these.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from edgedec.backends.backend import PassRequest
from edgedec.backends.head_rows import check_finite
from edgedec.core.errors import BackendError
from edgedec.core.forward import Contrasting, Forward, Paged
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Parents, Rows
from edgedec.kernels import library

Run = Callable[[Sequence[PassRequest]], list[HeadRows]]
"""Computes requests of several sequences in one pass; see ``Sequences.run``."""
_WITH, _WITHOUT = 0, 1


class ContrastForward(Forward, Contrasting):
    """The forward of two sequences, ``run`` together in passes over at most ``most`` tokens.

    Until ``leave_out`` both have the same tokens from the first on.
    """

    def __init__(self, forwards: tuple[Forward, ...], run: Run, most: int, weight: float) -> None:
        self._with, self._without = forwards
        self._run, self._most, self._weight = run, most, weight
        self.spec, self.ledger, self.capacity = self._with.spec, self._with.ledger, self._with.capacity
        self.caps = replace(self._with.caps, taps=(), exits=(), trims=False, sequences=1)
        self._place = 0
        """The place of the first token that both have, in the sequence with the text."""
        self._before: tuple[int, ...] = ()
        """The tokens before it in the sequence without the text."""
        self._first: int | None = None
        """The token in its place there; None: the same."""
        self._alone = 0
        """Tokens of the last pass that only the sequence with the text had."""

    @property
    def length(self) -> int:
        """See ``KvCache.length``."""
        return self._with.length

    def leave_out(self, prompt: int, without: Sequence[int]) -> None:
        """See ``Contrasting.leave_out``."""
        if not 0 < len(without) <= prompt:
            raise ValueError(f"{len(without)} tokens remain of a prompt of {prompt} tokens")
        place, before, first = prompt - 1, tuple(without[:-1]), without[-1]
        if (place, before, first) == (self._place, self._before, self._first):
            return
        self._with.rewind(min(place, self._with.length))
        same = next(
            (at for at, (new, old) in enumerate(zip(before, self._before, strict=False)) if new != old),
            min(len(before), len(self._before)),
        )
        self._without.rewind(self._without.reachable(min(same, self._without.length)))
        self._place, self._before, self._first = place, before, first

    def reachable(self, length: int) -> int:
        """See ``KvCache.reachable``: as many as both sequences can go back to."""
        while True:
            length = self._with.reachable(length)
            if length <= self._place:
                return length
            there = self._beside(length)
            if (found := self._without.reachable(there)) == there:
                return length
            length = self._place + max(found - len(self._before), 0)

    def rewind(self, length: int) -> None:
        """See ``KvCache.rewind``."""
        length = self.reachable(length)
        self._with.rewind(length)
        self._without.rewind(min(self._beside(length), self._without.length))

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``. Rows before the end of the prompt cannot be had. Raises ValueError."""
        alone = min(max(self._place - self.length, 0), len(tokens))
        wanted = rows.resolve(len(tokens))
        if wanted and min(wanted) < alone:
            raise ValueError("the prompt is read without rows up to its last token")
        if alone == len(tokens):
            found = self._with.extend(tokens, parents=parents, rows=rows)
            self._alone = alone
            return found
        self._read_before()
        above = None if parents is None else [max(parent - alone, -1) for parent in parents[alone:]]
        shared = [*tokens[alone:]]
        if self._first is not None and self.length + alone == self._place:
            shared[0] = self._first
        full = replace(rows, full=True, last=False, indices=tuple(wanted))
        beside = replace(full, indices=tuple(row - alone for row in wanted))
        found = self._both(
            PassRequest(_WITH, tokens, parents, full), PassRequest(_WITHOUT, shared, above, beside)
        )
        self._alone = alone
        return found if rows.full else replace(found, logits=None)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``KvCache.keep_path``."""
        self._with.keep_path(nodes)
        shared = [node - self._alone for node in nodes if node >= self._alone]
        if shared or self._without.length > len(self._before):
            self._without.keep_path(shared)

    def nbytes(self) -> dict[str, int]:
        """See ``KvCache.nbytes``: with the cache of both sequences."""
        found, beside = self._with.nbytes(), self._without.nbytes()
        return {name: held if name == "weights" else held + beside[name] for name, held in found.items()}

    @property
    def paged(self) -> Paged | None:
        """The cache with the text, which is the model's own."""
        return self._with.paged

    @property
    def snapshots(self) -> bool:
        """See ``KvCache.snapshots``."""
        return self._with.snapshots

    def snapshot(self) -> bool:
        """See ``KvCache.snapshot``."""
        return self._with.snapshot()

    def expect(self, places: Callable[[], Iterable[int]]) -> None:
        """See ``KvCache.expect``."""
        self._with.expect(places)

    def _beside(self, length: int) -> int:
        """Tokens that the other sequence has, where that with the text has ``length``."""
        return len(self._before) + max(length - self._place, 0)

    def _read_before(self) -> None:
        """Let the sequence without the text read what comes before the tokens that both have."""
        while (at := self._without.length) < len(self._before):
            piece = self._before[at : at + self.caps.max_pass]
            self._without.extend(piece, rows=Rows(()))

    def _both(self, first: PassRequest, second: PassRequest) -> HeadRows:
        if len(first.tokens) + len(second.tokens) <= self._most:
            found, beside = self._run([first, second])
        else:
            before = self.length
            (found,) = self._run([replace(first, rows=replace(first.rows, lent=False))])
            try:
                (beside,) = self._run([second])
            except BaseException:
                self._with.rewind(before)
                raise
        if not len(found):
            return found
        assert found.logits is not None, "whole rows were asked for"
        assert beside.logits is not None, "whole rows were asked for"
        return contrast(found.logits, beside.logits, self._weight, found.temperature, self.spec.head_k)


def contrast(logits: FloatArray, without: FloatArray, weight: float, temperature: float, k: int) -> HeadRows:
    """Return rows of logits that weigh a text: ``logits`` with it, which are overwritten, and without it.

    Raises BackendError where the kernels refuse them, BadFileError for logits that are not numbers.
    """
    count, width = logits.shape
    values, ids = np.empty((count, k), np.float32), np.empty((count, k), np.int32)
    logsumexp, entropy = np.empty(count, np.float32), np.empty(count, np.float32)
    arrays = (one.ctypes.data_as(ctypes.c_void_p) for one in (values, ids, logsumexp, entropy))
    places = (one.ctypes.data_as(ctypes.c_void_p) for one in (logits, without))
    sizes = count, width, k, ctypes.c_float(weight), ctypes.c_float(temperature)
    status = library.function("edgedec_head_contrast")(library.isa().encode(), *places, *sizes, *arrays)
    if status:
        raise BackendError(f"logits with and without a text cannot be combined (status {status})")
    check_finite(logsumexp)
    return HeadRows(values, ids, logsumexp, entropy, logits, temperature)
