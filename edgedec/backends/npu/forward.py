"""The KV cache of a model on an NPU, and its passes of fixed lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.cache_forward import CacheForward
from edgedec.backends.head_rows import head_rows
from edgedec.bundle.npu_facts import MASKS, NpuFacts
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Parents, Rows
from edgedec.memory import CacheBook, PlannedPass

LOGITS = "logits"


class NpuRunner(Protocol):
    """The part of ``NpuModel`` that computes."""

    facts: NpuFacts
    weight_bytes: int

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def lengths(self) -> tuple[int, ...]: ...

    def run(
        self, length: int, feeds: dict[str, NDArray[Any]], wanted: list[str]
    ) -> dict[str, NDArray[Any]]: ...

    def embedded(self, tokens: list[int]) -> FloatArray: ...


class NpuForward(CacheForward, Forward):
    """The ``Forward`` over an ``NpuModel``.

    A pass is padded to the next length. The caller's side of the cache is here, in the device's integers: a
    pass reads all of it, and the rows that it returns are written into their slots. What padding computes is
    masked, and never written.
    """

    def __init__(self, runner: NpuRunner, caps: Capabilities, book: CacheBook, ledger: Ledger | None) -> None:
        super().__init__(runner.spec, caps, book, ledger)
        self._runner, self._facts = runner, runner.facts
        shape = (self.spec.n_kv_heads, self._facts.slots, self.spec.head_dim)
        names = [f"{kind}.{layer}" for layer in range(self.spec.n_layers) for kind in ("keys", "values")]
        nbytes = sum(self._facts.formats[name].bits // 8 for name in names) * int(np.prod(shape))
        self._lease = self.ledger.lease("kv_cache", nbytes)
        self._lease.take()
        # An empty slot holds zero: a number that is hidden must still be one.
        self._cache = {
            name: np.full(shape, self._facts.formats[name].zero, self._facts.formats[name].dtype)
            for name in names
        }

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``. Raises BackendError when the device fails; nothing is appended then."""
        planned = self._placed(tokens, parents, rows)
        chosen = list(rows.resolve(len(tokens)))
        length = self._length(len(tokens))
        made = {f"{name.replace('.', '_new.')}": name for name in self._cache}
        wanted = [*([LOGITS] if chosen else []), *made]
        found = self._runner.run(length, self._feeds(length, list(tokens), planned), wanted)
        logits = np.empty((0, self.spec.vocab_size), np.float32)
        if chosen:
            logits = self._facts.formats[LOGITS].floats(found[LOGITS][chosen])
        result = head_rows(logits, self.spec.head_k, full=rows.full, temperature=rows.temperature)
        end = planned.start + len(tokens)
        for new, name in made.items():
            self._cache[name][:, planned.start : end] = found[new][:, : len(tokens)]
        self._book.append(planned)
        return result

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``."""
        sources, targets = self._book.keep(nodes)
        if sources:
            for rows in self._cache.values():
                rows[:, targets] = rows[:, sources]

    def nbytes(self) -> dict[str, int]:
        """``weights``: those of the file; the device holds copies. ``kv_cache``: held here."""
        held = sum(rows.nbytes for rows in self._cache.values())
        return {"weights": self._runner.weight_bytes, "kv_cache": held}

    def resident_rows(self) -> list[NDArray[Any]]:
        """Return the slots that are taken, of every layer."""
        return [rows[:, : self._book.slots] for rows in self._cache.values()]

    def _length(self, tokens: int) -> int:
        return next(length for length in self._runner.lengths if length >= tokens)

    def _feeds(self, length: int, tokens: list[int], planned: PlannedPass) -> dict[str, NDArray[Any]]:
        facts = self._facts
        positions = np.zeros(length, np.int64)
        positions[: len(tokens)] = planned.positions
        embedded = np.zeros((length, self.spec.hidden_size), np.float32)
        embedded[: len(tokens)] = self._runner.embedded(tokens)
        feeds = {**self._cache, "embedding": embedded, "slots": self._slots(planned.start, length)}
        for name, table in facts.rotary.items():
            for kind, values in zip(("cos", "sin"), table.at(positions), strict=True):
                feeds[f"{name}.{kind}"] = facts.formats[f"{name}.{kind}"].quantised(values)
        seen = _seen(planned, length, facts.slots)
        whole, local = MASKS
        if whole in facts.formats:
            feeds[whole] = self._mask(whole, seen)
        if local in facts.formats:
            at = np.arange(facts.slots)
            at[planned.start : planned.start + length] = positions
            feeds[local] = self._mask(local, seen & (positions[:, None] - at < facts.window))
        return feeds

    def _mask(self, name: str, seen: NDArray[np.bool_]) -> NDArray[Any]:
        chosen = self._facts.formats[name]
        shown = np.where(seen, chosen.zero, 0).astype(chosen.dtype)
        return np.tile(shown, (self._facts.group, 1))[None]

    def _slots(self, start: int, length: int) -> NDArray[np.int64]:
        heads = self.spec.n_kv_heads
        found = np.empty((heads, length, 2), np.int64)
        found[..., 0] = np.arange(heads)[:, None]
        found[..., 1] = np.arange(start, start + length)
        return found


def _seen(planned: PlannedPass, length: int, slots: int) -> NDArray[np.bool_]:
    """Return bool[length, slots]: the slots that each token attends to; padding attends to itself."""
    seen = np.zeros((length, slots), np.bool_)
    own = np.arange(length)
    seen[own, planned.start + own] = True
    for node, parent in enumerate(planned.parents):
        if parent < 0:
            seen[node, : planned.start] = True
        else:
            seen[node] |= seen[parent]
    return seen
