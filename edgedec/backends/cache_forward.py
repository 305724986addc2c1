"""A base class for forwards: the facts of the model and the bookkeeping of the cache, without any part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from edgedec.backends.checks import check_keep, check_tokens
from edgedec.backends.kv_states import KvStates
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.forward import Capabilities, KvCache
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import Keep, Parents, Rows
from edgedec.memory import CacheBook, PlannedPass


class CacheForward(KvCache):
    """The bookkeeping part of ``Forward``.

    ``book`` records which slots are taken, ``states`` has those of recurrent layers. A subclass adds
    ``extend``, ``keep_path`` and ``nbytes``, and the parts that it has.
    """

    def __init__(
        self,
        spec: ModelSpec,
        caps: Capabilities,
        book: CacheBook,
        ledger: Ledger | None = None,
        states: KvStates | None = None,
    ) -> None:
        self.spec, self.caps, self._book, self._states = spec, caps, book, states
        self.ledger = Ledger() if ledger is None else ledger
        self.capacity = book.capacity
        self._kept: Keep | None = None

    @property
    def length(self) -> int:
        """See ``KvCache.length``."""
        return self._book.length

    @property
    def resident(self) -> int:
        """See ``Evicting.resident``."""
        return self._book.slots

    @property
    def evicted(self) -> range:
        """See ``Evicting.evicted``."""
        return self._book.evicted

    def reachable(self, length: int) -> int:
        """See ``KvCache.reachable``."""
        found = self._book.reachable(length)
        if self._states and found < length:
            kept = self._states.snapshots.before(length)
            if kept > found and self._book.holds(kept):
                return kept
        return found

    def rewind(self, length: int) -> None:
        """See ``KvCache.rewind``."""
        if self._states is None:
            self._book.rewind(length)
            return
        if (kept := self.reachable(length)) > self._book.reachable(length):
            self._states.recall(kept)
            length = kept
        self._book.rewind(length)
        self._states.follow()
        self._states.snapshots.forget(self.length)

    @property
    def snapshots(self) -> bool:
        """See ``KvCache.snapshots``."""
        return self._states is not None and self._states.kept_bytes > 0

    def snapshot(self) -> bool:
        """See ``KvCache.snapshot``."""
        return self._states is not None and self._states.snapshot()

    @contextmanager
    def computing(self, planned: PlannedPass) -> Iterator[None]:
        """Compute ``planned`` inside, which is recorded behind it.

        A pass that fails may have changed recurrent states: then the cache goes back to their checkpoint.
        """
        if self._states is None:
            yield
            self._book.append(planned)
            return
        with self._states.lock:
            self._states.begin()
            try:
                yield
                self._states.done(keep=self._book.append(planned))
            except BaseException:
                self._states.book.lose()
                self.rewind(self.length)
                raise

    def _placed(self, tokens: Sequence[int], parents: Parents, rows: Rows) -> PlannedPass:
        """Check a pass, and place it; see ``CacheBook.plan``."""
        check_tokens(tokens, self.caps.max_pass, self.spec.vocab_size)
        self._check_rows(rows)
        return self._plan(len(tokens), parents)

    def _plan(self, tokens: int, parents: Parents) -> PlannedPass:
        return self._book.plan(tokens, parents)

    def _check_rows(self, rows: Rows) -> None:
        """Raises UnsupportedError for rows that the capabilities lack, ValueError for wrong ids to keep."""
        if rows.taps:
            if not self.caps.taps:
                self._refuse("it hands out no hidden states")
            if not set(rows.taps) <= set(self.caps.taps):
                raise ValueError(f"hidden states of layers {rows.taps}: there are {self.caps.taps}")
        if rows.keep is None or rows.keep is self._kept:
            return
        if not self.caps.trims:
            self._refuse("its head cannot be trimmed")
        check_keep(rows.keep, self.spec.vocab_size)
        self._kept = rows.keep

    def _check_held(self, length: int) -> None:
        """Raise ValueError unless the cache holds the first ``length`` tokens as they were fed."""
        held = 0 <= length <= self.length and self.reachable(length) == length
        if not self._book.settled or self.evicted or not held:
            raise ValueError(f"cannot write {length} tokens: the cache does not hold them, or an open tree")

    def _check_read(self, length: int) -> None:
        """Raise BadFileError unless ``length`` tokens, which were read, can be gone on from."""
        if self.reachable(length) != length:
            self.rewind(0)
            raise BadFileError(f"a saved cache of {length} tokens lacks some that the next one sees")

    def _refuse(self, why: str) -> NoReturn:
        raise UnsupportedError(f"{self.spec.name}: {why}")
